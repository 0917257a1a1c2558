//go:build !linux

package audit

import "os"

// datasync makes a file's content durable.
func datasync(f *os.File) error { return f.Sync() }
