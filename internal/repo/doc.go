// Package repo holds the repository's rules as tests: which package may import
// which, how long a file may be, that every package says what it promises,
// that the dependency list is the reviewed one, and that the README's code
// compiles. It has no code of its own.
package repo
