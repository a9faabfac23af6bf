// Package approvals decides what happens to a tool call.
//
// Guarantees:
//   - A decision is a function of its arguments. The package does no I/O,
//     reads no clock, starts no goroutine, logs nothing and knows no
//     protocol; what it needs to know of the machine comes in a [Place].
//   - The zero value of every type asks or refuses: unknown is not safe.
//   - A deny rule holds at every rung and for every tool, and so does the
//     floor for shell text.
//   - The stages that ran are part of the answer, in order.
//   - A sticky answer that is offered stores exactly what is shown, and
//     that entry matches the call it was offered for.
//
// It does not guarantee containment. It is no sandbox: a program that was
// approved does what it does with the rights of the user.
//
// The flow: [Read] turns a call into a [Reading] once (parse, effects,
// subject, digest); [Evaluate] turns reading, posture, grants and perhaps a
// rating into a [Verdict]; [Settle] turns a person's answer into a
// [Decision]. docs/gate.md holds the rules in full.
package approvals
