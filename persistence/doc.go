// Package persistence keeps sessions on disk: a session.Store on Badger, and
// the sharing of one store between the processes of a user.
//
// Guarantees:
//   - A batch is stored whole or not at all, and the records of a session
//     are in order and without gaps whenever the store opens again.
//   - What was asked, answered, claimed, granted, decided or marked as
//     executing is on the disk before the call returns. Everything that was
//     written before it is there too. Other records reach the disk with the
//     next of those, or when the system writes them back: they survive the
//     death of the process, not that of the machine.
//   - An ask is answered once and claimed once, whoever tries.
//   - A lease that another process has taken over writes nothing any more.
//   - When the disk has no room the store refuses to write and goes on
//     reading. A damaged file costs what it held, not the store; a copy is
//     kept aside and the log says what was lost.
//   - Every value names the version of its encoding. Older ones are brought
//     up to date when the store opens, newer ones are refused.
//
// Not guaranteed: secrecy. The directory is readable by its owner only, and
// its contents are not encrypted. Nor does a store on a network file system
// keep these promises: the lock and the mapped files need a local one.
//
// The layout is described in docs/store.md.
package persistence
