package memproxy

import "net/textproto"

// UserAgent marks memproxy's own requests, as opposed to forwarded ones.
const UserAgent = "memproxy"

// Header holds header fields by canonical name. It is a list per name: a
// header that comes twice is two values. An http.Header converts to it.
type Header map[string][]string

// Get returns the first value of name, or "".
func (h Header) Get(name string) string { return textproto.MIMEHeader(h).Get(name) }

// Values returns every value of name.
func (h Header) Values(name string) []string { return textproto.MIMEHeader(h).Values(name) }

// Set replaces the values of name.
func (h Header) Set(name, value string) { textproto.MIMEHeader(h).Set(name, value) }
