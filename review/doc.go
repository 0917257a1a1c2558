// Package review is for the review of held writes by people: an HTTP API for the
// admin listener, a client and commands for it, signed webhooks, and the replay of
// approved writes.
//
// It promises:
//
//   - Every request needs a token, except on the local operator's socket; a token
//     is limited to its tenants, and everything else does not exist for it. Tokens
//     are stored as hashes and compared in constant time. There are no cookies, and
//     bodies must have the media type of JSON, so that a browser cannot be made to
//     act (CSRF).
//   - Content is shown sanitised. The original requires a role, a confirmation
//     and a record in the audit log before it is shown.
//   - Every action is in the audit log before it takes effect. If the log cannot
//     be written the answer is 503.
//   - An approved write is sent at most once. If the outcome is unknown the backend
//     is asked, and the write is never repeated on a guess.
//   - A notice is delivered at least once, signed, even after a crash.
package review
