package ledger

import "github.com/memproxy/memproxy"

func standingKey(s *memproxy.Standing) key { return key{s.Backend, s.Kind, s.ID} }
