// Package policy holds the bundle: the policies and their schema, and the
// tables that go with them, as text with a version.
//
// It promises: a bundle's version is the hash of everything in it, so that two
// proxies with one version rule alike; a directory that cannot be read as a
// whole changes nothing; and every error says file and line. It does not
// evaluate; package policy/cedar does.
package policy
