//go:build !linux && !darwin

package main

// forgetTyped does nothing where typed input cannot be dropped.
func forgetTyped() {}
