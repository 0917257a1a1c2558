package frontend

import (
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
)

// Headers and query parameters with which a reader asks for a minimum confidence of
// memories, from 0 to 1, and for their provenance. Listeners do not forward them.
const (
	MinTrustHeader   = OwnPrefix + "Min-Trust"
	ProvenanceHeader = OwnPrefix + "Provenance"

	minTrustParam   = memproxy.StampPrefix + "min_trust"
	provenanceParam = memproxy.StampPrefix + "provenance"
)

// ParseReadOptions reads the parts of a request that are meant for memproxy. It returns the
// request without the query parameters, which ProxyQuery keeps; every other byte of the
// query is unchanged. A parameter that is repeated, malformed or unknown is a flaw: a
// caller that expects to be shown less must not be shown more. Two different names of the
// session are a flaw, too, because only one can be locked.
func ParseReadOptions(req memproxy.Request) (memproxy.Request, gate.ReadOptions, *memproxy.Flaw) {
	said := map[string][]string{minTrustParam: req.Header.Values(MinTrustHeader), provenanceParam: req.Header.Values(ProvenanceHeader)}
	var flaw *memproxy.Flaw
	req.Query, req.ProxyQuery, flaw = ownParams(req.Query, said)
	var w gate.ReadOptions
	if flaw != nil {
		return req, w, flaw
	}
	if names := req.Header.Values(SessionHeader); len(names) > 1 && len(slices.Compact(slices.Clone(names))) > 1 {
		return req, w, unclear(SessionHeader + " is repeated with different values")
	}
	if values := said[minTrustParam]; len(values) > 0 {
		f, ok := memproxy.Decimal(values[0])
		if len(values) > 1 || !ok || f > 1 {
			return req, w, unclear(MinTrustHeader + " must be a single number from 0 to 1, in decimal digits")
		}
		w.MinTrust = memproxy.PerMille(math.Ceil(f*1000 - 1e-6)) // at least what was asked for; less 1e-6 because 0.07*1000 is over 70
	}
	if values := said[provenanceParam]; len(values) > 0 {
		if len(values) > 1 || values[0] != "true" && values[0] != "false" {
			return req, w, unclear(ProvenanceHeader + " must be true or false")
		}
		w.Provenance = values[0] == "true"
	}
	return req, w, nil
}

// ownParams splits a query into the part to forward and memproxy's own parameters, and
// adds the values of the latter to said.
func ownParams(query string, said map[string][]string) (rest, own string, flaw *memproxy.Flaw) {
	if !strings.ContainsRune(query, '%') && !strings.Contains(strings.ToLower(query), memproxy.StampPrefix) {
		return query, "", nil // it has no parameter of memproxy's own, like most
	}
	var keep, ours []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		key, err := url.QueryUnescape(name)
		if err != nil || !memproxy.Reserved(key) {
			keep = append(keep, part)
			continue
		}
		ours = append(ours, part)
		if _, known := said[key]; !known {
			flaw = unclear("unknown memproxy query parameter")
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			flaw = unclear("a memproxy query parameter is not correctly encoded")
		}
		said[key] = append(said[key], value)
	}
	return strings.Join(keep, "&"), strings.Join(ours, "&"), flaw
}

func unclear(detail string) *memproxy.Flaw {
	return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: memproxy.StatusBadRequest, Detail: detail}
}
