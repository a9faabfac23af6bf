package shellscan

// sensitive reports whether the floor or the tables of write and connect
// operands know a program, so that its real words must be seen before it
// runs. It takes a program word as written.
func sensitive(program string) bool {
	_ = program
	return true
}
