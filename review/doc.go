// Package review is where people settle what the gate held back: an HTTP API
// for the admin listener, a client and commands for it, signed webhooks, and
// the replay of approved writes.
//
// It promises:
//
//   - Nobody without a token does or sees anything; a token sees its tenants
//     only, and what is not among them does not exist for it. Tokens are known
//     by their hash and compared in constant time. There are no cookies, and
//     bodies are JSON by media type, so that no browser can be made to act.
//   - Content is shown sanitised. The original takes a role, a confirmation
//     and a record in the audit log before it is shown.
//   - Every action is in the audit log before it takes effect. A log that
//     cannot be written makes it 503.
//   - An approved write is sent once. Where it is not known whether it was, it
//     is asked for and never sent again on a guess.
//   - A notice is delivered at least once, signed, also over crashes.
package review
