// Command gen writes the Go types of the Agent Client Protocol from its JSON
// schema. It is deterministic: the same schema gives the same bytes.
//
// What it guarantees of the types it writes:
//   - optional and nullable are two things: an absent member, a null and a
//     value are told apart by Opt where the schema allows all three;
//   - a list that the schema requires is written as [] when empty, never
//     as null;
//   - a member that the schema marks as forgiving falls back to its zero
//     value when it cannot be read, every other misfit is an error.
//
// Shapes that it does not know become json.RawMessage.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/gth-server/gth-server/acp/internal/schema"
)

// roots are the definitions that the server reads or writes; what they
// refer to follows by itself.
var roots = []string{
	"InitializeRequest", "InitializeResponse",
	"AuthenticateRequest", "AuthenticateResponse",
	"NewSessionRequest", "NewSessionResponse",
	"ListSessionsRequest", "ListSessionsResponse",
	"LoadSessionRequest", "LoadSessionResponse",
	"ResumeSessionRequest", "ResumeSessionResponse",
	"DeleteSessionRequest", "DeleteSessionResponse",
	"SetSessionModeRequest", "SetSessionModeResponse",
	"SetSessionConfigOptionResponse", "SessionConfigSelectOption",
	"PromptRequest", "PromptResponse",
	"CloseSessionRequest", "CloseSessionResponse",
	"CancelNotification", "CancelRequestNotification", "SessionNotification",
	"RequestPermissionRequest", "RequestPermissionResponse",
	"ErrorCode",
}

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if out == "" {
		return fmt.Errorf("no output file: give -out FILE")
	}
	src, err := Generate(schema.V1(), schema.V1Meta(), roots)
	if err != nil {
		return err
	}
	return os.WriteFile(out, src, 0o644)
}
