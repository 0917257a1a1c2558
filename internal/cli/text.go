package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const maxText = 1 << 20 // bytes on stdin

// Text has a command take a text as its words, and returns what reads it: - is
// standard input.
func Text(c *cobra.Command, stdin io.Reader) func() (string, error) {
	var text string
	c.Args = func(_ *cobra.Command, words []string) error {
		if text = strings.Join(words, " "); strings.TrimSpace(text) == "" {
			return errors.New("a text is needed")
		}
		return nil
	}
	return func() (string, error) {
		if text != "-" {
			return text, nil
		}
		b, err := io.ReadAll(io.LimitReader(stdin, maxText+1))
		if err == nil && (len(b) > maxText || strings.TrimSpace(string(b)) == "") {
			err = fmt.Errorf("stdin has %d bytes: want a text of at most %d", len(b), maxText)
		}
		return string(b), err
	}
}
