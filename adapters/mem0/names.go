package mem0

import "github.com/memproxy/memproxy/adapters/spelling"

// newNames are the names that say whose a request is, and the parameters of
// queries that are read besides: which page, of what size, and what goes too.
func newNames() *spelling.Names {
	return spelling.New(
		[]string{"user_id", "agent_id", "app_id", "run_id", "session_id"}, nil,
		[]string{"page", "page_size", "limit", "top_k", "delete_linked", "metadata", "filters"},
	)
}
