// Package interop reads the audit log with Tessera's client and fsck, an
// implementation of tlog-tiles that owes nothing to this project. It is a
// module of its own so that Tessera's dependencies stay out of the product.
package interop
