package screen

import "io/fs"

// Hold and Deny are the risks, per mille, at which the built-in policies hold
// and refuse. The built-in pack has the same.
const (
	Hold = 500
	Deny = 850
)

// Files are the built-in pack's files, to begin one's own with.
func Files() fs.FS {
	sub, err := fs.Sub(embedded, "pack")
	if err != nil {
		panic(err) // the directory is compiled in
	}
	return sub
}
