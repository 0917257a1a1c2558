package memproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"
)

// CallerPrefix begins the ids of records of a principal's rejections across all
// sessions; sessionPrefix begins those of sessions. A session name from a caller
// that has the first prefix is ignored.
const (
	CallerPrefix  = "caller:"
	sessionPrefix = "session:"
)

// SessionKind is the scope in which rejections are counted.
type SessionKind string

// The kinds. Each belongs to one principal of one tenant: no principal's rejections
// count against another.
const (
	// SessionNamed is one session of a principal and of the end user whom the
	// writes name.
	SessionNamed SessionKind = "session"
	// SessionUser is a principal on behalf of one end user, or of none that its
	// writes name, in all sessions.
	SessionUser SessionKind = "user"
	// SessionPrincipal is a principal as a whole.
	SessionPrincipal SessionKind = "principal"
)

// SessionKey has the parts of a rejection record's id.
type SessionKey struct {
	Kind                  SessionKind
	Principal, User, Name string
}

// ID is the record's id: "session:PRINCIPAL/USER/NAME", "caller:PRINCIPAL/USER"
// or "caller:PRINCIPAL", each part escaped as in the path of a URL. Two keys
// have two ids, however their parts are spelled.
func (k SessionKey) ID() string {
	switch k.Kind {
	case SessionPrincipal:
		return CallerPrefix + idPart(k.Principal)
	case SessionUser:
		return CallerPrefix + idPart(k.Principal) + "/" + idPart(k.User)
	}
	return sessionPrefix + idPart(k.Principal) + "/" + idPart(k.User) + "/" + idPart(k.Name)
}

// NameSuffix is the end of the ids of all sessions with a name.
func NameSuffix(name string) string { return "/" + idPart(name) }

// SessionKeyOf reads an id. One that has no such form is the name of a session
// as earlier versions recorded it.
func SessionKeyOf(id string) SessionKey {
	if rest, ok := strings.CutPrefix(id, CallerPrefix); ok {
		principal, user, both := strings.Cut(rest, "/")
		if both {
			return SessionKey{SessionUser, plainPart(principal), plainPart(user), ""}
		}
		return SessionKey{SessionPrincipal, plainPart(principal), "", ""}
	}
	if rest, ok := strings.CutPrefix(id, sessionPrefix); ok {
		if parts := strings.Split(rest, "/"); len(parts) == 3 {
			return SessionKey{SessionNamed, plainPart(parts[0]), plainPart(parts[1]), plainPart(parts[2])}
		}
	}
	return SessionKey{Kind: SessionNamed, Name: id}
}

// maxIDPart bounds one part of an id in bytes: a longer one ends in a hash.
const maxIDPart = 200

func idPart(s string) string {
	e := url.PathEscape(s)
	if len(e) <= maxIDPart {
		return e
	}
	sum := sha256.Sum256([]byte(s))
	head := e[:maxIDPart-33]
	if i := strings.LastIndexByte(head, '%'); i > len(head)-3 {
		head = head[:i]
	}
	return head + "~" + hex.EncodeToString(sum[:16])
}

func plainPart(s string) string {
	if p, err := url.PathUnescape(s); err == nil {
		return p
	}
	return s
}

// LockLimits are how many rejections lock writes, and for how long. They also apply
// to earlier rejections. Zero rejections never lock.
type LockLimits struct {
	// Session are the rejections of one session since it began, or since its
	// last lock ended; User those of a principal for one end user within the
	// Window, and Principal all of a principal within it.
	Session, User, Principal int
	Window                   time.Duration
	// For is how long a lock lasts, from the last rejection that counted.
	For time.Duration
}

// DefaultLockLimits are those of SYN-7 and of the configuration.
func DefaultLockLimits() LockLimits {
	return LockLimits{Session: 3, User: 10, Principal: 100, Window: time.Hour, For: time.Hour}
}

// Of is the number that locks a kind of record.
func (l LockLimits) Of(kind SessionKind) int {
	switch kind {
	case SessionUser:
		return l.User
	case SessionPrincipal:
		return l.Principal
	}
	return l.Session
}

// Lock is a lock that is in force.
type Lock struct {
	ID    string // of the record
	Limit int    // the rejections that lock it
	Until time.Time
}

// SessionFilter selects records of rejections.
type SessionFilter struct {
	Tenant    *string // nil is every one, "" those without
	Principal string  // "" is every one
	// All includes records that are not locked.
	All bool
	// After is Next of the page before.
	After string
	// Limit is the size of a page; 0 is 50, at most 500.
	Limit int
}

// SessionPage is a page of records, in the order of their ids.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	// Next is After for the next page, "" on the last.
	Next string `json:"next,omitempty"`
}
