package gate

import "github.com/memproxy/memproxy"

// States exports what decides whether a fact says what users said.
func States(said, fact string) bool {
	return saidBy(&memproxy.Operation{Items: []memproxy.Item{{Kind: memproxy.ItemContent, Role: "user", Text: said}}}).states(fact)
}
