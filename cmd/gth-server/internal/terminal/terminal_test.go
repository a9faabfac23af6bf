package terminal_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/gth-server/gth-server/approvals"
	"github.com/gth-server/gth-server/cmd/gth-server/internal/terminal"
)

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"plain text":      "plain text",
		"\x1b[31mred":     `\x1b[31mred`,
		"a\rb\nc\td":      `a\x0db\x0ac\x09d`,
		"\u202egnp.exe":   `\u202egnp.exe`,
		"zero\u200bwidth": `zero\u200bwidth`,
		"\U000e0041tag":   `\u{e0041}tag`,
		"bad\xff":         `bad\xff`,
		"\u2028":          `\u2028`,
		"naïve 日本":        "naïve 日本",
		"\u00a0":          `\u00a0`,
		"\x7f\u0085":      `\x7f\u0085`,
	}
	for in, want := range tests {
		if got := terminal.Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	tests := map[string]string{
		"two\n\tlines\n":        "two\n\tlines\n",
		"\x1b[2Jgone\r":         `\x1b[2Jgone\x0d`,
		"\u202eleft":            `\u202eleft`,
		"👩\u200d👧 and a\u00a0b": "👩\u200d👧 and a\u00a0b",
		"\u009b31m\xff":         `\u009b31m\xff`,
	}
	for in, want := range tests {
		if got := terminal.Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestEscapeProperty: whatever the text, nothing of it acts on a terminal.
func TestEscapeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, line := range terminal.Block(rapid.String().Draw(t, "text"), rapid.IntRange(0, 200).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "max")) {
			for _, r := range line {
				if r != ' ' && !unicode.IsPrint(r) {
					t.Fatalf("%U reaches the terminal in %q", r, line)
				}
			}
		}
	})
}

func TestBlock(t *testing.T) {
	got := strings.Join(terminal.Block("one\ntwo is a longer line\n", 20, 0), "\n")
	want := "   1 | one\n   2 | two is a long\n     : er line"
	if got != want {
		t.Errorf("Block:\n%s\nwant\n%s", got, want)
	}
	lines := terminal.Block(strings.Repeat("x\n", 100), 80, 9)
	if len(lines) != 9 || !strings.Contains(strings.Join(lines, "\n"), "92 more lines") {
		t.Errorf("a long text is not elided: %q", lines)
	}
}

func TestAsk(t *testing.T) {
	offer := &approvals.Offer{Preview: `{ "type": "shell" }`}
	plain := approvals.Request{Tool: "run_shell_command", Subject: approvals.Subject{Kind: approvals.SubjectShell, Command: "npm test"}, Why: "why"}
	offered := plain
	offered.AllowSession, offered.AllowWorkspace, offered.RejectSession = offer, offer, offer
	attack := plain
	attack.Typed, attack.Outcome = true, approvals.Attack
	tests := []struct {
		name, in string
		req      approvals.Request
		want     approvals.Choice
	}{
		{"once", "o\n", plain, approvals.AllowOnce},
		{"upper case and space", " O \n", plain, approvals.AllowOnce},
		{"no is the default", "\n", offered, approvals.RejectOnce},
		{"end of input refuses", "", offered, approvals.RejectOnce},
		{"unknown key", "yes\n", offered, approvals.RejectOnce},
		{"session", "s\n", offered, approvals.AllowSession},
		{"session not offered", "s\n", plain, approvals.RejectOnce},
		{"workspace", "w\n", offered, approvals.AllowWorkspace},
		{"workspace not offered", "w\n", plain, approvals.RejectOnce},
		{"deny", "d\n", offered, approvals.RejectSession},
		{"attack by key", "o\n", attack, approvals.RejectOnce},
		{"attack typed", " Run Anyway\n", attack, approvals.AllowOnce},
		{"attack nearly typed", "run  anyway\n", attack, approvals.RejectOnce},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			a := terminal.NewAsker(strings.NewReader(tt.in), &out, terminal.Painter{}, 80)
			if got := a.Ask(t.Context(), tt.req); got.Choice != tt.want {
				t.Errorf("Choice = %v, want %v\n%s", got.Choice, tt.want, out.String())
			}
			if !strings.Contains(out.String(), "npm test") {
				t.Errorf("the command is not shown:\n%s", out.String())
			}
		})
	}
}

// TestAskOffers: the keys that are named are those that count, an answer
// that is none is told so, and what was typed before is forgotten once the
// question is shown.
func TestAskOffers(t *testing.T) {
	req := approvals.Request{Tool: "run_shell_command", Subject: approvals.Subject{Kind: approvals.SubjectShell, Command: "npm test"}}
	req.RejectSession = &approvals.Offer{Preview: "preview"}
	var out strings.Builder
	a := terminal.NewAsker(strings.NewReader("s\no\n"), &out, terminal.Painter{}, 80)
	shown := ""
	a.Forget = func() { shown = out.String() }
	if got := a.Ask(t.Context(), req); got.Choice != approvals.RejectOnce {
		t.Errorf("Choice = %v, want a rejection", got.Choice)
	}
	if !strings.Contains(shown, "npm test") || strings.Contains(shown, "Answer") {
		t.Errorf("what was typed is forgotten at the wrong moment, after %q", shown)
	}
	if s := out.String(); !strings.Contains(s, "[o/N/d]") || !strings.Contains(s, "none of the answers") {
		t.Errorf("shown: %s", s)
	}
	if got := a.Ask(t.Context(), req); got.Choice != approvals.AllowOnce {
		t.Errorf("the next line is not the next answer: %v", got.Choice)
	}
}

func TestAskCancelled(t *testing.T) {
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := terminal.NewAsker(r, io.Discard, terminal.Painter{}, 80)
	if got := a.Ask(ctx, approvals.Request{}); got.Choice != approvals.Unanswered {
		t.Errorf("Choice = %v, want unanswered", got.Choice)
	}
}
