//go:build !linux

package ring

func memory() string { return "" }
