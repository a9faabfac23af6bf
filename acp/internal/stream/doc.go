// Package stream speaks JSON-RPC 2.0 over a pair of byte streams, one
// message a line.
//
// Guarantees:
//   - A line that is no message never ends the connection: bad JSON is
//     answered with -32700, a wrong shape with -32600, and reading goes on.
//     A line is bounded; the rest of one that is too long is skipped.
//   - Ids are restated byte for byte: strings, negative and large numbers.
//   - Messages are accepted in the order in which they came, on one
//     goroutine; their work runs in goroutines that the connection owns and
//     waits for. A panic in either becomes -32603.
//   - One Write per message, and nothing but messages is written.
//   - At the end of input the connection still writes: the owner decides
//     when it closes.
//
// Not guaranteed: that a Read or Write of the caller's streams that blocks
// for ever ends. Close leaves such a goroutine behind and returns.
//
// The exchange of requests and answers is sourcegraph/jsonrpc2's; this
// package gives it lines to read and write.
package stream
