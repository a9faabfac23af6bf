// Package session owns the life of sessions and of their turns.
//
// Guarantees:
//   - The log is the truth: everything that happens to a session is one
//     append-only, ordered list of records. A record is stored first and
//     shown to subscribers afterwards.
//   - Nothing leaks between sessions: each has its own runner, rung,
//     grants, refusals and log.
//   - One turn at a time runs in a session. The session owns its goroutine
//     and context, not the request or socket that asked for it.
//   - An ask is stored before anyone is asked; its first valid answer wins,
//     is claimed once, and is restated to whoever answers later.
//   - An ask outlives its owner: it is asked again when its session opens,
//     and its call runs at most once, whoever answers and whatever dies.
//   - Decisions and answers are chained, so that a later change shows.
//   - Close returns when every goroutine that the session started has ended.
//
// Not guaranteed: that a subscriber sees every delta. A slow one loses
// deltas and reads the whole message when it ends.
package session
