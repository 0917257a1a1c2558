// Package gate is the decision. It declares the small interfaces of its
// collaborators, runs the ordered steps of design.md's life of a write and
// life of a read, and pins one immutable Rules for each request.
//
// It promises: whatever face calls it (HTTP or Envoy), every operation passes
// the same steps in the same order; an error of a collaborator never becomes
// an allow; and the audit record of a decision is durable before Admit
// returns anything that may be forwarded.
package gate
