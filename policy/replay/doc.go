// Package replay puts recorded decisions to two versions of the rules and says
// what the newer one allows that the older one refused, and the other way round.
//
// The audit log keeps no content and not every fact that policies see: not the
// caller's roles, the size of a field, or what screening found. What is not
// recorded is guessed: the fewest departures from "nothing special" with which
// the older rules answer as they did then. Where every such guess leads to the
// same change it is certain, else possible; where none explains the record, it
// is counted as unexplained and not passed over in silence. A line of the input
// may state the facts, and nothing is then guessed.
//
// Only the policies are replayed. Identity, ownership and budgets are not theirs
// to change, so what those refused stays refused.
package replay
