// Package replay evaluates recorded decisions under two versions of the rules, and
// reports what the newer version newly allows and newly refuses.
//
// The audit log contains no content. It has only what policies see of the content, such
// as sizes and kinds, and the caller's roles. Decisions that the older rules do not
// reproduce are counted as unexplained: other rules were in force, the record lacks facts
// (it is older than them, or there were too many), or the decision depends on something
// unrecorded (keys of content, the governance of layers).
//
// Only policies are replayed. What identity, ownership or budgets refused remains
// refused.
package replay
