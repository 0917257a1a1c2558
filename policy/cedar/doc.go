// Package cedar compiles a policy.Bundle and rules on questions with it.
//
// It promises: a bundle that compiles has every policy checked against the
// schema; a question that does not fit the schema, or a policy that fails on
// it, is a denial and never a yes; and reasons come sorted.
package cedar
