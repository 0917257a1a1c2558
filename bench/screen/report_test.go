package main

import (
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
)

// Transforms with the same figures share a row of the report.
func TestAlikeTransformsShareARow(t *testing.T) {
	rows := []named{{"rot13", "9 of 12 | 0 of 12"}, {"base64", "12 of 12 | 0 of 12"}, {"morse", "9 of 12 | 0 of 12"}}
	expect.Equal(t, alike(rows), "| 9 of 12 | 0 of 12 | rot13, morse |\n| 12 of 12 | 0 of 12 | base64 |\n")
	expect.Equal(t, alike(rows[:1]), "| 9 of 12 | 0 of 12 | every one |\n")
}
