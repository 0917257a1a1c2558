package gate

import (
	"strconv"

	"github.com/memproxy/memproxy"
)

// MinTrustHeader is how a reader asks for memories of a confidence at the
// least, from 0 to 1. Faces do not send it on.
const MinTrustHeader = "X-Memproxy-Min-Trust"

// MinTrust reads it.
func MinTrust(h memproxy.Header) (memproxy.PerMille, *memproxy.Malformed) {
	values := h.Values(MinTrustHeader)
	if len(values) == 0 {
		return 0, nil
	}
	f, err := strconv.ParseFloat(values[0], 64)
	if len(values) > 1 || err != nil || !(f >= 0 && f <= 1) {
		return 0, &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: StatusBadRequest, Detail: MinTrustHeader + " is one number from 0 to 1"}
	}
	return memproxy.PerMille(f*1000 + 0.5), nil
}

// trusted reports whether a memory is of the confidence that the caller asked
// for: as the ledger has it, else as a stamp that verifies says.
func (ret *returning) trusted(row *memproxy.Ownership, m *memproxy.Memory) bool {
	least := ret.call.MinTrust
	if least <= 0 || m.Missing || m.Layer == memproxy.Episodic {
		return true
	}
	if row != nil {
		return row.Confidence >= least
	}
	return m.Stamp != nil && ret.signed(m.Stamp, nil) && m.Stamp.Confidence >= least
}
