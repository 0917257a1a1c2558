package extproc

import (
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
)

// text is a header's value. Envoy sends bytes, which need not be UTF-8.
func text(h *corev3.HeaderValue) string {
	if len(h.GetRawValue()) > 0 {
		return string(h.GetRawValue())
	}
	return h.GetValue()
}

// headers splits Envoy's headers into pseudo headers and headers. A repeated header
// has several values. Host is the authority.
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

// mutation collects changes of headers. Envoy removes headers before it sets any.
type mutation struct{ m procv3.HeaderMutation }

func (u *mutation) remove(name string) {
	u.m.RemoveHeaders = append(u.m.RemoveHeaders, strings.ToLower(name))
}

// set replaces all values of a header.
func (u *mutation) set(name string, values ...string) {
	action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	for _, value := range values {
		u.m.SetHeaders = append(u.m.SetHeaders, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: strings.ToLower(name), RawValue: []byte(value)}, AppendAction: action,
		})
		action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
}

// removeSet removes those of the named headers that are set.
func (u *mutation) removeSet(h memproxy.Header, names []string) {
	for _, name := range names {
		if len(h[name]) > 0 {
			u.remove(name)
		}
	}
}

func (u *mutation) length(n int) { u.set("Content-Length", strconv.Itoa(n)) }

// changed removes the headers that describe an answer's bytes, because the bytes
// were changed. The caller sets the length.
func (u *mutation) changed(h memproxy.Header) { u.removeSet(h, face.EntityHeaders[:]) }

// uncached marks an answer that was filtered for one caller as not cacheable.
func (u *mutation) uncached(h memproxy.Header) {
	for name := range h {
		if name != "Cache-Control" && face.Caching(name) {
			u.remove(name)
		}
	}
	u.set("Cache-Control", face.NoStore)
}

// done returns the mutation, or nil if nothing changes.
func (u *mutation) done() *procv3.HeaderMutation {
	if len(u.m.RemoveHeaders)+len(u.m.SetHeaders) == 0 {
		return nil
	}
	slices.Sort(u.m.RemoveHeaders)
	return &u.m
}

// strip removes headers that must not be forwarded, as the HTTP face does. The
// message framing is left to Envoy.
func (u *mutation) strip(names []string) {
	for _, name := range names {
		switch name {
		case "Connection", "Transfer-Encoding":
		default:
			u.remove(name)
		}
	}
}

// conceal removes the client's credential.
func (u *mutation) conceal(h memproxy.Header) { u.removeSet(h, face.CredentialHeaders[:]) }

// present replaces the client's backend credential by our own.
func (u *mutation) present(c *face.Credential, h memproxy.Header) {
	if c == nil {
		return
	}
	for _, name := range face.CredentialHeaders {
		if len(h[name]) > 0 && !strings.EqualFold(name, c.Header) {
			u.remove(name)
		}
	}
	u.set(c.Header, c.Value)
}

// carrier writes a trace context as changes of headers.
type carrier struct{ *mutation }

func (carrier) Get(string) string    { return "" }
func (c carrier) Set(name, v string) { c.set(name, v) }
func (carrier) Keys() []string       { return nil }
