// Package acp serves the Agent Client Protocol, version 1, to one client
// over a pair of byte streams.
//
// Guarantees:
//   - Nothing but JSON-RPC messages is written, each in one Write, and all
//     of them fit the published schema. Text of models, tools and clients
//     is data in fields.
//   - Every prompt is answered exactly once, after its last update. A
//     cancelled turn is answered with the result cancelled, never an error.
//   - A session/cancel behind a session/prompt reaches that prompt, however
//     close; one without a turn does nothing to the next.
//   - Only an answer that was offered allows a call. Anything else from the
//     client, errors included, refuses it. An attack is never put to a
//     button.
//   - Serve returns soon after the end of input, whatever the client or a
//     tool does; its turns are cancelled and its sessions closed.
//
// Not guaranteed: that a Read or Write of the caller's streams which blocks
// for ever ends with Serve; and that a client shows what it is sent.
//
// Messages are read and written by internal/stream, their types generated
// into internal/wire. One connection owns its sessions; in each a pump turns
// the session's log into updates. See docs/acp.md.
package acp

//go:generate go run ./internal/gen -out internal/wire/zz_generated.go
