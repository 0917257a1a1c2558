// Package repo holds the repository's rules as tests: which package may import
// which, how large files, types and packages may be, that the core's tests wait
// for no clock, that every package says what it promises, that the dependency
// list is the reviewed one, that the README's configuration is valid, and that
// documents show command lines which the program takes. It has no code of its own.
package repo
