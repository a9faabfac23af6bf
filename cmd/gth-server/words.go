package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gth-server/gth-server/approvals"
)

// shellTool is the tool whose subject is shell text.
const shellTool = "run_shell_command"

// commandText makes shell text of what stood after the flags of check or
// exec, the separator included: one word is text already, several are
// quoted so that the shell reads them unchanged.
//
// Several words need the separator, because a flag among them would
// otherwise silently become part of the command.
func commandText(name string, words []string) (string, error) {
	separated := len(words) > 0 && words[0] == "--"
	if separated {
		words = words[1:]
	}
	switch {
	case len(words) == 0:
		return "", usage(fmt.Errorf("%[1]s needs a command: gth-server %[1]s -- 'COMMAND' or gth-server %[1]s -- PROGRAM WORD…", name))
	case len(words) > 1 && !separated:
		return "", usage(fmt.Errorf("%[1]s cannot tell flags from the words of the command: put flags first and -- before the command: gth-server %[1]s -- %[2]s", name, shellText(words)))
	}
	text := shellText(words)
	switch {
	case !utf8.ValidString(text):
		return "", usage(errors.New("command is not UTF-8 text: write the bytes in bash as $'\\xff'"))
	case len(words) > 1 && strings.TrimSpace(words[0]) == "":
		return "", usage(errors.New("the first word, the program, is empty: check the variable that it comes from"))
	}
	return text, nil
}

func shellText(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	if slices.Contains(reservedWords, words[0]) {
		quoted[0] = "'" + words[0] + "'"
	}
	return strings.Join(quoted, " ")
}

// reservedWords mean something to the shell as the first word of a command,
// unless they are quoted; those of other characters are quoted anyway.
var reservedWords = []string{
	"case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function",
	"if", "in", "select", "then", "time", "until", "while",
}

const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+:,./_-"

func shellQuote(w string) string {
	if w != "" && strings.Trim(w, plainCharacters) == "" {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}

func shellCall(text string) approvals.Call {
	args, _ := json.Marshal(map[string]string{"command": text}) // a string map always encodes
	return approvals.Call{Tool: shellTool, Arguments: args}
}
