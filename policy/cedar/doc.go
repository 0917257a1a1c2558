// Package cedar compiles a policy.Bundle and evaluates it.
//
// It guarantees that every policy of a compiled bundle was validated against the
// schema, that it fails closed (a question that violates the schema, or a policy that
// fails to evaluate, is a denial), and that reasons are sorted.
package cedar
