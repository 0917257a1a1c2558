package letta

import "github.com/memproxy/memproxy/adapters/spelling"

// newNames are the names that say whose a request is or what it is about, and
// the parameters of queries that are read besides: where a page begins, its
// size and its order.
func newNames() *spelling.Names {
	return spelling.New(
		[]string{"agent_id", "manager_agent_id", "other_agent_id", "user_id", "identity_id", "identifier_key", "conversation_id", "archive_id", "source_id", "folder_id"},
		[]string{"agent_ids", "identity_ids", "identifier_keys", "block_ids", "shared_block_ids", "archive_ids", "folder_ids", "source_ids"},
		[]string{"before", "after", "limit", "top_k", "order", "ascending"},
	)
}

// newHeaders are the headers that say who somebody is.
func newHeaders() *spelling.Names {
	names := make([]string, len(identityHeaders))
	for i := range identityHeaders {
		names[i] = identityHeaders[i].name
	}
	return spelling.New(names, nil, nil)
}
