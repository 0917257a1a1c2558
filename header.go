package memproxy

import "net/textproto"

// UserAgent identifies memproxy's own requests, as opposed to forwarded ones.
const UserAgent = "memproxy"

// Header holds header fields by canonical name. Each name has a list, so that a repeated
// header keeps all of its values. http.Header converts to it.
type Header map[string][]string

// Get returns the first value of name, or "".
func (h Header) Get(name string) string { return textproto.MIMEHeader(h).Get(name) }

// Values returns every value of name.
func (h Header) Values(name string) []string { return textproto.MIMEHeader(h).Values(name) }

// Set replaces the values of name.
func (h Header) Set(name, value string) { textproto.MIMEHeader(h).Set(name, value) }
