package screen

import "io/fs"

// BuiltinFS is the built-in pack's files.
func BuiltinFS() fs.FS {
	sub, err := fs.Sub(embedded, "pack")
	if err != nil {
		panic(err)
	}
	return sub
}
