//go:build !unix

package persistence

func isReadOnly(error) bool { return false }
