// Package hostile opens connections to an HTTP server as somebody would who
// wants to keep others from being served, and measures what an ordinary client
// of the same server has of it meanwhile.
//
// It promises that an attack holds the number of connections it was asked for,
// opening another for each that is closed, but no faster than a paced attacker
// would, and that it tells what it did: connections, answers, refusals.
package hostile
