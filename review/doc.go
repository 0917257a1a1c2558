// Package review lets people review held writes. It has an HTTP API for the admin
// listener, a client and commands for the API, signed webhooks, and the replay of
// approved writes.
//
// It guarantees:
//
//   - Every request needs a token, except on the local operator's socket. A token
//     is limited to its tenants; objects of other tenants are answered like
//     missing ones. Tokens are stored as hashes and compared in constant time.
//     There are no cookies, and bodies must have the media type of JSON, so that
//     another site cannot make a browser act (CSRF).
//   - Content is shown sanitised. The original requires a role, a confirmation
//     and a record in the audit log before it is shown.
//   - Every action is in the audit log before it takes effect. If the log cannot
//     be written the answer is 503.
//   - An approved write is sent at most once. If the outcome is unknown the backend
//     is asked, and the write is never repeated on a guess.
//   - A notice is delivered at least once, signed, even after a crash.
package review
