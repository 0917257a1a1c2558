//go:build !unix

package audit

import (
	"errors"
	"os"
)

// lock refuses where two writers could not be kept apart.
func lock(string) (*os.File, error) {
	return nil, errors.New("audit: this platform has no file locks; the log cannot be written safely")
}
