// Package shell runs the canonical print of a judged shell script with
// bash, and asks a checker about whatever became known only while it ran.
//
// It guarantees:
//   - The only text that bash sees is the prelude of this package and
//     Request.Script, inside one group, with neither profile nor rc files.
//     Variables that make bash run code or change its grammar at start
//     never reach it.
//   - A command or redirect that the print sends through a guard runs only
//     after the checker said yes to its real values. No answer, a broken
//     channel and a panic of the checker all mean no.
//   - After a refusal nothing of the script runs any more: every process
//     of its session is killed, and the result says what was refused.
//   - Memory stays bounded whatever the script prints, Run returns in
//     bounded time after the script ended, timed out or was cancelled, and
//     Close waits for every goroutine and process that a Run started.
//
// It does not guarantee anything about programs that were allowed to run:
// they have the user's rights. There are no limits on memory, files or
// number of processes yet. A script that leaves its session (setsid) is
// out of reach of the timeout. docs/shell.md explains how the guards work.
package shell
