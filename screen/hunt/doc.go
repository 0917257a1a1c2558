// Package hunt screens many texts: a stream of JSON lines ([Stream]), and
// everything that an existing store holds, through the backend's own API
// ([Walk]).
//
// It promises constant memory however long the stream or the store is, answers
// in the order of the input, every line or memory that could not be read
// counted and said and none passed over in silence, and a walk that can be
// stopped at any time and goes on where it was. It reads and reports; it never
// changes a store. Reports hold ids, rules and offsets, and no content unless
// they are asked for it.
package hunt
