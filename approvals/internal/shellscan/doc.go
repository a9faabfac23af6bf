// Package shellscan turns the text of a shell command into what it would
// do: the programs that start, the paths that are read and written, the
// hosts that are contacted, and everything that the text leaves undecided.
//
// It guarantees that a text is parsed once, as bash, and that all answers
// come from that one tree; that nothing it cannot decide is passed over
// silently (it is in Unresolved, Hiding or a word that is not static); that
// hostile input costs time and memory linear in its size, which is bounded;
// and that it never panics, writes, reads or executes anything.
//
// It does not guarantee that programs behave as its table says, nor that
// the table is complete: a program outside of it possibly reads and writes
// each of its operands. It does not look inside other languages (awk,
// python, SQL) and follows no symbolic links. See docs/shell.md.
package shellscan
