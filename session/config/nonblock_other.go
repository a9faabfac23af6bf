//go:build !unix

package config

const nonblock = 0
