package gate

// Metered exports the ledger that counts failures.
func Metered(l Ledger, m Meter) Ledger { return metered{l, m} }

// Unreported exports which names of headers are still to be named in the log.
func Unreported(g *Gate, backend string, names ...string) []string {
	return g.reported.fresh(backend, names)
}
