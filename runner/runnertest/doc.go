// Package runnertest is a fake of a server that speaks OpenAI's chat
// completions, for tests on loopback.
//
// It guarantees that an answer depends on the conversation only: the last
// user message names what is played, and the number of assistant messages
// behind it says which step. So several sessions, retries and reloads may
// use one server. Only failures that are to happen a number of times are
// counted, per prompt and step. It records every request.
//
// What a prompt plays is, in this order: the replies that the test set for
// exactly this text with [Server.Script]; the prompt itself, when it is a
// JSON array of [Reply], so that a test which drives a binary needs nothing
// else; a short text that repeats the prompt.
//
// It is no model and checks no key unless [Server.RequireKey] is set.
package runnertest
