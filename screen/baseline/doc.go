// Package baseline learns what a user's memories are usually like and reports deviations:
// a domain that is new, a topic far from the others, instructions from a user who only
// stated facts so far, many more writes than in other hours (anomaly detection).
//
// A deviation is a hint and no proof: findings are of low or medium severity, and there
// are none while the profile is still being learnt. An attacker who poisons slowly shifts
// the baseline; the package does not replace the layers that look at content.
//
// Invariants: the state is bounded in users and in bytes per user, holds hashes and
// counts and no content, and can be written as JSON and read back. The package reads no
// clock. Callers should learn only writes that went through.
package baseline
