package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"
)

// given is the value of a flag that has none when the flag is left out. An
// empty value is a mistake, most often an unset variable, and must not pass
// for the default.
type given string

// UnmarshalText refuses an empty value.
func (g *given) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return errors.New("its value is empty: give one, or leave the flag out")
	}
	*g = given(b)
	return nil
}

// Globals are the flags that every command takes.
type Globals struct {
	Config  given            `help:"Read the user configuration from this file instead of the default one." placeholder:"FILE" short:"c"`
	DataDir given            `help:"Keep sessions, questions and grants here." placeholder:"DIR" name:"data-dir"`
	Log     string           `help:"Log level: debug, info, warn or error. Overrides the configuration." placeholder:"LEVEL" enum:",debug,info,warn,error" default:""`
	Version kong.VersionFlag `help:"Print the version and exit."`
}

// modelFlags choose the model of a session.
type modelFlags struct {
	Model   given `help:"Model as provider:name, such as openai:gpt-5 or scripted:FILE.yaml. Overrides GTH_MODEL and the configuration." placeholder:"PROVIDER:NAME" short:"m"`
	BaseURL given `help:"Base URL of an OpenAI-compatible server. Overrides GTH_BASE_URL and the configuration." name:"base-url" placeholder:"URL"`
	Rung    given `help:"Rung of the session: manual, write, assisted, auto or bypass." placeholder:"RUNG" short:"r"`
}

// editorCLI is the part of the command line that editors use. They start it
// for every window, and building the rest costs them as much as all other
// work of ours before the first answer.
type editorCLI struct {
	Globals

	Acp acpCmd `cmd:"" name:"acp" help:"Serve the Agent Client Protocol on standard input and output, for editors."`
}

type cli struct {
	editorCLI

	Run      runCmd      `cmd:"" help:"Run one prompt without a person and exit with a code that says how it went."`
	Check    checkCmd    `cmd:"" help:"Say what the gate would decide about a command or tool call, without running it."`
	Exec     execCmd     `cmd:"" help:"Decide about a shell command as a session would, ask if needed, and run it."`
	Demo     demoCmd     `cmd:"" help:"Play a scripted session in a temporary workspace and show every decision. Needs no key."`
	Sessions sessionsCmd `cmd:"" help:"List, show, check and delete stored sessions."`
	Asks     asksCmd     `cmd:"" help:"List and answer the questions that wait for a person."`
	Grants   grantsCmd   `cmd:"" help:"List, show and revoke what was allowed for a workspace."`
	Cfg      cfgCmd      `cmd:"" name:"config" help:"Show or check the configuration."`
	Ver      verCmd      `cmd:"" name:"version" help:"Print the version."`
}

type verCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run prints the version.
func (c *verCmd) Run(std stdio) error {
	if c.JSON {
		return writeJSON(std.out, map[string]string{"version": version})
	}
	_, err := fmt.Fprintln(std.out, version)
	return err
}

func writeJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
