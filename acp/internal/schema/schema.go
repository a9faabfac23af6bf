// Package schema embeds the published JSON schema of the Agent Client
// Protocol for the generator and for tests. The files are kept unchanged,
// under the licence beside them. The server itself does not import it.
package schema

import (
	"embed"
	"fmt"
)

//go:embed v1/schema.json v1/meta.json
var files embed.FS

// V1 returns the schema of protocol version 1.
func V1() []byte { return read("v1/schema.json") }

// V1Meta returns the method names of protocol version 1.
func V1Meta() []byte { return read("v1/meta.json") }

func read(name string) []byte {
	b, err := files.ReadFile(name)
	if err != nil { // the file is named in the embed directive above
		panic(fmt.Sprintf("schema: %v", err))
	}
	return b
}
