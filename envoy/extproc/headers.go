package extproc

import (
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
)

// text returns a header's value. Envoy sends bytes, which need not be UTF-8.
func text(h *corev3.HeaderValue) string {
	if len(h.GetRawValue()) > 0 {
		return string(h.GetRawValue())
	}
	return h.GetValue()
}

// headers splits Envoy's headers into pseudo headers and other headers. A repeated header
// has several values. Host is set to the authority.
func headers(m *corev3.HeaderMap) (pseudo map[string]string, h memproxy.Header) {
	list := m.GetHeaders()
	pseudo, h = make(map[string]string, 5), make(memproxy.Header, len(list))
	for _, hv := range list {
		name := hv.GetKey()
		if strings.HasPrefix(name, ":") {
			pseudo[name] = text(hv)
			continue
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name == "Host" {
			continue
		}
		h[name] = append(h[name], text(hv))
	}
	return pseudo, h
}

// changes returns the mutation that turns Envoy's headers into the wanted ones; nil if
// there is none. Envoy removes headers before it sets any, and handles the message
// framing itself.
func changes(has memproxy.Header, want http.Header) *procv3.HeaderMutation {
	var m procv3.HeaderMutation
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, kept := want[name]; !kept && name != "Connection" && name != "Transfer-Encoding" {
			m.RemoveHeaders = append(m.RemoveHeaders, strings.ToLower(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if slices.Equal(has[name], want[name]) {
			continue
		}
		action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
		for _, value := range want[name] {
			m.SetHeaders = append(m.SetHeaders, &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)}, AppendAction: action,
			})
			action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
		}
	}
	if len(m.RemoveHeaders)+len(m.SetHeaders) == 0 {
		return nil
	}
	return &m
}
