// Package policy defines bundles: policies, their schema and the tables that belong to
// them, as text with a version.
//
// A bundle's version is a hash of everything in it, so proxies with the same version
// decide alike. A directory that cannot be read completely changes nothing. Errors name the
// file, and the line if there is one. Package policy/cedar evaluates bundles.
package policy
