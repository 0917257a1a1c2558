// Package baseline learns how a user's memories usually read and tells when
// one departs from it: a domain that never came up, a topic far from the
// others, instructions from somebody who only ever stated facts, many more
// writes than in other hours.
//
// A deviation is a hint and never proof: findings are of low or medium
// severity, and none is given while the profile is still being learnt. Who
// poisons slowly teaches the baseline; it is no substitute for the layers that
// look at content.
//
// The package promises that its state is bounded in users and in bytes of each
// user, holds hashes and counts and no content, and can be written to JSON and
// read back. It reads no clock. Only writes that went through should be
// learnt.
package baseline
