// Package interop reads the audit log with Tessera's client and fsck, an independent
// implementation of tlog-tiles. It is a separate module, so that Tessera's dependencies
// stay out of the product.
package interop
