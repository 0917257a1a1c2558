package audit

import (
	_ "embed" // the names
	"strings"
	"sync"
)

//go:embed members.txt
var listed string

// members are the names of members that the two APIs have.
var members = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsSeq(listed) {
		out[name] = true
	}
	return out
})

// member reports whether the two APIs have members of a name. What is not
// listed is written as a hash: a new name of theirs costs the reader of a log a
// look into the request, a name that a caller made up would cost more.
func member(name string) bool { return members()[name] }
