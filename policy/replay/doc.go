// Package replay puts recorded decisions to two versions of the rules and says
// what the newer one allows that the older one refused, and the other way round.
//
// The audit log keeps no content. What policies saw of it, sizes and kinds, and
// the caller's roles are on record. What the older rules do not explain is counted
// as unexplained and not passed over in silence: they were others, or the record
// lacks these facts (it was made before the log held them, or there were too many),
// or something bears on it that is not recorded (names that content is filed under,
// how layers are governed).
//
// Only the policies are replayed. Identity, ownership and budgets are not theirs
// to change, so what those refused stays refused.
package replay
