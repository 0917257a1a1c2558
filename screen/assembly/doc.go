// Package assembly finds payloads that are spread over several writes.
//
// A [Store] keeps a bounded tail of what each session wrote lately. Asked
// about a new write, it answers with the texts that the write would assemble
// with that tail: a sentence that was begun before, numbered parts, a base64
// string in pieces, a name that was given a meaning earlier and is used now, a
// condition here and its instruction there, halves of a credential.
//
// The package promises three things. It never judges: a joined text is
// screened by whoever screens texts, and a finding counts when it crosses from
// one write into another ([Joined.Crosses]); each write by itself was judged
// already. It joins only what looks unfinished, numbered, encoded, named or
// conditional, so that ordinary facts that follow each other stay apart. And
// its memory is bounded, whatever is written: in sessions, writes, bytes and
// time.
package assembly
