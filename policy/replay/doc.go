// Package replay puts recorded decisions to two versions of the rules and says
// what the newer one allows that the older one refused, and the other way round.
//
// The audit log keeps no content. What policies saw of it, sizes and kinds, and
// the caller's roles are on record, and nothing is guessed. Records of before
// have none of that; it is then guessed: the fewest departures from "nothing
// special" with which the older rules answer as they did then. Where every such
// guess leads to the same change it is certain, else possible. What the older
// rules do not explain (they were others, or something bears on it that is not
// recorded: names that content is filed under, how layers are governed) is
// counted as unexplained and not passed over in silence.
//
// Only the policies are replayed. Identity, ownership and budgets are not theirs
// to change, so what those refused stays refused.
package replay
