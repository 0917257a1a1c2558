package gate

import "github.com/memproxy/memproxy"

// States exports what decides whether a fact says what users said.
func States(said, fact string) bool {
	return saidBy(&memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Role: "user", Text: said}}}).states(fact)
}

// Unreported exports which names of headers are still to be named in the log.
func Unreported(g *Gate, backend string, names ...string) []string {
	return g.unreported(backend, names)
}
