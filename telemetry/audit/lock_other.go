//go:build !unix

package audit

import (
	"errors"
	"os"
)

// lock returns an error where concurrent writers cannot be excluded.
func lock(string) (*os.File, error) {
	return nil, errors.New("audit: this platform has no file locks; the log cannot be written safely")
}
