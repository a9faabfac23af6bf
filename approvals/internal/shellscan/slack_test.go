//go:build !race

package shellscan

// slack widens time limits where the tests themselves are slowed down.
const slack = 2
