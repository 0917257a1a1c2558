package extproctest

import (
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// headers maps lower-case names to values, including pseudo headers.
type headers map[string][]string

func fromHTTP(h http.Header) headers {
	out := headers{}
	for name, values := range h {
		out[strings.ToLower(name)] = slices.Clone(values)
	}
	for _, named := range h["Connection"] { // Envoy's HTTP/1 codec removes these first
		for name := range strings.SplitSeq(named, ",") {
			delete(out, strings.ToLower(strings.TrimSpace(name)))
		}
	}
	for _, hop := range [...]string{"connection", "transfer-encoding", "upgrade"} {
		delete(out, hop)
	}
	return out
}

func (h headers) set(name, value string) { h[name] = []string{value} }

func (h headers) get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (h headers) proto() *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			m.Headers = append(m.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(v)})
		}
	}
	return m
}

// to copies all but pseudo headers to an http.Header.
func (h headers) to(out http.Header) {
	out["Content-Type"] = nil // Envoy adds none; net/http would guess one
	for name, values := range h {
		if !strings.HasPrefix(name, ":") {
			out[textproto.CanonicalMIMEHeaderKey(name)] = values
		}
	}
}

var (
	errMutation = errors.New("a mutation that Envoy refuses")
	errLength   = errors.New("content-length does not fit the mutated body")
)

// apply changes headers as Envoy does: removals first.
func (h headers) apply(m *procv3.HeaderMutation) error {
	for _, name := range m.GetRemoveHeaders() {
		if strings.HasPrefix(name, ":") || name == "host" {
			return errMutation
		}
		delete(h, strings.ToLower(name))
	}
	for _, o := range m.GetSetHeaders() {
		name, value := o.GetHeader().GetKey(), string(o.GetHeader().GetRawValue())
		if name == "" || name != strings.ToLower(name) || o.GetHeader().GetValue() != "" {
			return errMutation
		}
		switch name {
		case ":method", ":scheme", ":authority", "host":
			return errMutation // Envoy requires mutation_rules for these
		}
		switch o.GetAppendAction() {
		case corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:
			h[name] = append(h[name], value)
		case corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD:
			h.set(name, value)
		default:
			return errMutation
		}
	}
	return nil
}

// replace applies a response about a buffered body.
func (h headers) replace(c *procv3.CommonResponse, body []byte) ([]byte, error) {
	if err := h.apply(c.GetHeaderMutation()); err != nil {
		return nil, err
	}
	if c.GetBodyMutation() == nil {
		return body, nil
	}
	body = c.GetBodyMutation().GetBody()
	if n := h.get("content-length"); n != "" && n != strconv.Itoa(len(body)) {
		return nil, errLength
	}
	return body, nil
}
