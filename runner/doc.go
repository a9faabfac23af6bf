// Package runner plays the turns of one session: it asks the model, puts
// every tool call through the gate, runs what was approved and gives the
// results back, until the model is done.
//
// Guarantees:
//   - The loop is a function of the session's log. What the model reads is
//     built from the log, so a reloaded session goes on where it stood.
//   - No tool call has an effect before the gate, and where it asked a
//     person, approved it, and before the log holds that it starts.
//   - What was judged is what runs: the arguments in canonical form, the
//     shell text as the print of the judged tree, judged again right before
//     it starts. What changed in between does not run.
//   - All calls of a model answer are judged before any of them runs, and
//     an attack among them stops them all.
//   - A model answer that was cut off starts no call.
//   - Every announced call gets a terminal record, also when the turn is
//     cancelled or fails; only calls whose ask outlives the turn stay open,
//     and Resume runs them once it is answered.
//   - No goroutine outlives Run or Resume.
//
// Not guaranteed: that a tool which ignores its signals ends at once; the
// shell engine kills its process group after a grace time. docs/turns.md
// describes a turn in full.
package runner
