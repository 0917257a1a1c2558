package audit

import (
	_ "embed" // the names
	"strings"
	"sync"
)

//go:embed members.txt
var listed string

// members returns the names of members that the two APIs have.
var members = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(listed) {
		out[name] = true
	}
	return out
})

// member reports whether a name is a member of one of the two APIs. Other names are recorded
// as hashes, because a caller may have chosen them, and so are members that an API added
// since.
func member(name string) bool { return members()[name] }
