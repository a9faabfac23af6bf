// Package sessiontest holds what tests of and around sessions share: the
// contract suite that every session.Store has to pass, and a runner that
// plays a script instead of asking a model.
//
// Guarantees: [RunStore] tests each sentence of the comments of
// session.Store and says in a failure which one was broken. A [Scripted]
// runner does what its steps say, in order, and nothing else.
//
// It is no model of a good runner: it neither gates nor claims calls unless
// a step does.
package sessiontest
