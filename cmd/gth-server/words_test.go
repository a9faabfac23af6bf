package main

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCommandText(t *testing.T) {
	tests := []struct {
		name  string
		words []string
		want  string // "" is a usage error
		say   string // in that error
	}{
		{"text", []string{"--", "a | b"}, "a | b", ""},
		{"text without the separator", []string{"ls"}, "ls", ""},
		{"words", []string{"--", "rm", "-rf", "a b"}, "rm -rf 'a b'", ""},
		{"only the first separator goes", []string{"--", "--", "x"}, "-- x", ""},
		{"quotes", []string{"--", "echo", "it's", ""}, `echo 'it'\''s' ''`, ""},
		{"metacharacters", []string{"--", "echo", "$x", "*", "~", "{a,b}", "!x", "#", "a\nb"}, "echo '$x' '*' '~' '{a,b}' '!x' '#' 'a\nb'", ""},
		{"a reserved word is a program here", []string{"--", "if", "x"}, "'if' x", ""},
		{"time is the program, not the word of the shell", []string{"--", "time", "ls"}, "'time' ls", ""},
		{"reserved words as operands", []string{"--", "echo", "if"}, "echo if", ""},
		{"an assignment is a program here", []string{"--", "A=b", "c"}, "'A=b' c", ""},
		{"nothing", nil, "", "needs a command"},
		{"nothing behind the separator", []string{"--"}, "", "needs a command"},
		{"words without the separator", []string{"rm -rf /", "--json"}, "", "-- 'rm -rf /' --json"},
		{"no text", []string{"--", "a\xff"}, "", "UTF-8"},
		{"no text in a word", []string{"--", "echo", "a\xff"}, "", "UTF-8"},
		{"empty program", []string{"--", "", "a"}, "", "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := commandText("check", tt.words)
			if got != tt.want {
				t.Errorf("text %q, want %q", got, tt.want)
			}
			if tt.want != "" {
				return
			}
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != exitUsage || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("error %v, want a usage error with %q", err, tt.say)
			}
		})
	}
}

// TestReservedWords: whatever bash calls a keyword is quoted as a program.
func TestReservedWords(t *testing.T) {
	out, err := exec.Command("bash", "-c", "compgen -k").Output()
	if err != nil {
		t.Fatalf("bash does not list its keywords: %v", err)
	}
	words := strings.Fields(string(out))
	for _, w := range words {
		if text := shellText([]string{w, "x"}); !strings.HasPrefix(text, "'") {
			t.Errorf("keyword %q stays bare in %q", w, text)
		}
	}
	if len(words) < 15 {
		t.Errorf("only %d keywords: %q", len(words), words)
	}
	t.Logf("%d keywords", len(words))
}

// TestWordsReachTheProgram: bash takes every word apart again exactly as it
// was given.
func TestWordsReachTheProgram(t *testing.T) {
	word := rapid.StringMatching(`[ -~\n\té日]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 6).Draw(t, "words")
		text := shellText(append([]string{"printf", `%s\0`}, words...))
		out, err := exec.CommandContext(context.Background(), "bash", "--norc", "--noprofile", "-c", text).Output()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if want := strings.Join(words, "\x00") + "\x00"; string(out) != want {
			t.Fatalf("%q gives %q, want %q", text, out, want)
		}
	})
}
