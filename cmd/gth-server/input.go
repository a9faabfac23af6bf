package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// await returns what f returns, or ctx's cause as soon as ctx is done. A
// read of a terminal or a pipe cannot be given up, so f then goes on in its
// goroutine until the process ends; it must touch nothing that is used
// after that.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ch := make(chan result, 1)
	go func() {
		v, err := f()
		ch <- result{v, err}
	}()
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// awaited reads from a reader as long as a context lasts.
type awaited struct {
	ctx context.Context
	r   io.Reader
}

func (a awaited) Read(p []byte) (int, error) {
	b, err := await(a.ctx, func() ([]byte, error) {
		own := make([]byte, len(p))
		n, err := a.r.Read(own)
		return own[:n], err
	})
	return copy(p, b), err
}

// maxPrompt bounds a prompt that is read from a file or standard input.
const maxPrompt = 4 << 20

// promptFile reads a prompt from a file, which may be a pipe.
func promptFile(ctx context.Context, name string) (string, error) {
	return await(ctx, func() (string, error) {
		f, err := os.Open(name)
		if err != nil {
			return "", usage(fmt.Errorf("prompt file: %w: name a file that can be read with -f", err))
		}
		defer f.Close()
		return readPrompt(f)
	})
}

func readPrompt(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
	if err != nil {
		return "", usage(fmt.Errorf("prompt cannot be read: %w: give a text file, or the prompt as an argument", err))
	}
	if len(b) > maxPrompt {
		return "", usage(fmt.Errorf("prompt is larger than %d bytes: give the model a file to read instead", maxPrompt))
	}
	return string(b), nil
}

// checkPrompt refuses what is no text: a model would be sent something
// else than what was given.
func checkPrompt(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return usage(errors.New("run needs a prompt: give it as an argument, with -f FILE, or on standard input with -"))
	case !utf8.ValidString(text):
		return usage(errors.New("prompt is not UTF-8 text: convert it, or give the model the file to read"))
	case strings.ContainsRune(text, 0):
		return usage(errors.New("prompt holds a NUL byte, so it is no text: give the model the file to read"))
	}
	return nil
}
