package redo

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
)

// entryFormat is the first byte of a logged entry. Logs of earlier programs have JSON, which
// begins with a brace. A change of the fields below needs another number.
const entryFormat = 2

// Encode returns the form in which an entry is logged.
func Encode(e *memproxy.Entry) []byte {
	c := codec{form: append(make([]byte, 0, 2<<10), entryFormat)}
	c.entry(e)
	return c.form
}

// Decode reads what Encode returned, and the JSON of earlier programs.
func Decode(form []byte) (*memproxy.Entry, error) {
	switch {
	case len(form) == 0:
		return nil, errors.New("the entry is empty")
	case form[0] == '{':
		return decodeJSON(form)
	case form[0] != entryFormat:
		return nil, fmt.Errorf("the entry has format %d, of another version of memproxy; this one reads format %d", form[0], entryFormat)
	}
	c, e := codec{form: form[1:], decoding: true}, &memproxy.Entry{}
	if c.entry(e); c.broken || len(c.form) > 0 {
		return nil, errors.New("the entry is malformed")
	}
	return e, nil
}

// codec writes or reads the fields that it is given, so that one list of fields serves both.
type codec struct {
	form             []byte // what was written, or is left to read
	decoding, broken bool
}

// entry has the lists of an entry that may be queued; see memproxy.Entry.
func (c *codec) entry(e *memproxy.Entry) {
	list(c, &e.Found, (*codec).version)
	list(c, &e.Versions, (*codec).version)
	list(c, &e.States, (*codec).state)
	list(c, &e.Renewed, func(c *codec, r *memproxy.Renewal) {
		c.key(&r.MemoryKey)
		c.time(&r.Expires)
		c.flag(&r.Sooner)
	})
	list(c, &e.Owners, (*codec).owner)
}

// version has what the caller of the ledger sets; the rest is assigned when it is appended.
func (c *codec) version(v *memproxy.Version) {
	c.key(&v.MemoryKey)
	c.texts(&v.Tenant, &v.Field, (*string)(&v.Op), &v.Actor, (*string)(&v.Trust), (*string)(&v.Attestation), &v.Decision, &v.SHA256, &v.Before, &v.Text)
	metadata := string(v.Metadata)
	if c.texts(&metadata); metadata != "" {
		v.Metadata = []byte(metadata)
	}
	number(c, &v.Confidence)
	number(c, &v.Score)
	c.flag(&v.Pinned)
}

func (c *codec) state(s *memproxy.StateChange) {
	c.key(&s.MemoryKey)
	c.texts(&s.Tenant, (*string)(&s.State), &s.Reason, &s.Decision, &s.Rules, &s.Text, (*string)(&s.Attestation))
	list(c, &s.From, func(c *codec, from *memproxy.MemoryState) { c.texts((*string)(from)) })
	c.time(&s.Seen)
	c.time(&s.Expires)
	c.flag(&s.Person)
	list(c, &s.Findings, func(c *codec, f *memproxy.Finding) {
		c.texts(&f.Rule, &f.Severity)
		number(c, &f.Item)
		number(c, &f.Start)
		number(c, &f.End)
		number(c, &f.Score)
	})
}

func (c *codec) owner(o *memproxy.Ownership) {
	c.texts(&o.Backend, (*string)(&o.Kind), &o.ID, &o.Scope.Tenant, &o.Scope.User, &o.Scope.Agent, &o.Scope.App, &o.Scope.Run,
		&o.Actor, (*string)(&o.Trust), (*string)(&o.Source), &o.Decision, &o.SHA256)
	number(c, &o.Confidence)
	c.time(&o.Written)
	c.flag(&o.Deleted)
}

func (c *codec) key(k *memproxy.MemoryKey) { c.texts(&k.Backend, (*string)(&k.Kind), &k.ID) }

func (c *codec) texts(all ...*string) {
	for _, text := range all {
		n := len(*text)
		if number(c, &n); !c.decoding {
			c.form = append(c.form, *text...)
		} else if n = c.atMost(n); n > 0 {
			*text, c.form = string(c.form[:n]), c.form[n:]
		}
	}
}

func (c *codec) time(t *time.Time) {
	seconds, nanoseconds := t.Unix(), t.Nanosecond()
	number(c, &seconds)
	if number(c, &nanoseconds); c.decoding {
		*t = time.Unix(seconds, int64(nanoseconds)).UTC()
	}
}

func (c *codec) flag(set *bool) {
	n := 0
	if *set {
		n = 1
	}
	if number(c, &n); c.decoding {
		*set = n > 0
	}
}

func number[T ~int | ~int64](c *codec, n *T) {
	if !c.decoding {
		c.form = binary.AppendVarint(c.form, int64(*n))
		return
	}
	found, size := binary.Varint(c.form)
	c.broken = c.broken || size <= 0
	*n, c.form = T(found), c.form[max(0, size):]
}

func list[T any](c *codec, all *[]T, element func(*codec, *T)) {
	n := len(*all)
	number(c, &n)
	if n = c.atMost(n); c.decoding && n > 0 {
		*all = make([]T, n)
	}
	for i := range *all {
		element(c, &(*all)[i])
	}
}

// atMost returns a length that was read if as many bytes are left, else 0.
func (c *codec) atMost(n int) int {
	if c.decoding && (n < 0 || n > len(c.form)) {
		c.broken = true
		return 0
	}
	return n
}

// jsonVersion is a version in the JSON of earlier programs, with the members that its own
// JSON omits.
type jsonVersion struct {
	memproxy.Version
	Text     string `json:"text"`
	Metadata []byte `json:"metadata"`
}

func decodeJSON(form []byte) (*memproxy.Entry, error) {
	var in struct {
		Found, Versions []jsonVersion
		States          []memproxy.StateChange
		Renewed         []memproxy.Renewal
		Owners          []memproxy.Ownership
	}
	if err := json.Unmarshal(form, &in); err != nil {
		return nil, err
	}
	all := func(versions []jsonVersion) (out []memproxy.Version) {
		for _, v := range versions {
			v.Version.Text, v.Version.Metadata = v.Text, v.Metadata
			out = append(out, v.Version)
		}
		return out
	}
	return &memproxy.Entry{Found: all(in.Found), Versions: all(in.Versions), States: in.States, Renewed: in.Renewed, Owners: in.Owners}, nil
}
