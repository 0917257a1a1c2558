package memproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"
)

// CallerPrefix begins the ids of the records of a principal's rejections in all sessions,
// sessionPrefix those of one session. A caller's session name that begins with
// CallerPrefix is ignored.
const (
	CallerPrefix  = "caller:"
	sessionPrefix = "session:"
)

// SessionKind is the scope in which rejections are counted.
type SessionKind string

// The kinds. Each record belongs to one principal of one tenant: rejections of one
// principal never count against another.
const (
	// SessionNamed is one session of a principal, on behalf of the end user that its
	// writes name.
	SessionNamed SessionKind = "session"
	// SessionUser is a principal on behalf of one end user, or without one, in all
	// sessions.
	SessionUser SessionKind = "user"
	// SessionPrincipal is a principal as a whole.
	SessionPrincipal SessionKind = "principal"
)

// SessionKey is the parts of a rejection record's id.
type SessionKey struct {
	Kind                  SessionKind
	Principal, User, Name string
}

// ID returns the record's id: "session:PRINCIPAL/USER/NAME", "caller:PRINCIPAL/USER" or
// "caller:PRINCIPAL", with each part escaped as in the path of a URL. Different keys
// always have different ids.
func (k SessionKey) ID() string {
	switch k.Kind {
	case SessionPrincipal:
		return CallerPrefix + idPart(k.Principal)
	case SessionUser:
		return CallerPrefix + idPart(k.Principal) + "/" + idPart(k.User)
	}
	return sessionPrefix + idPart(k.Principal) + "/" + idPart(k.User) + "/" + idPart(k.Name)
}

// NameSuffix returns the suffix of the ids of all sessions with a name.
func NameSuffix(name string) string { return "/" + idPart(name) }

// SessionKeyOf parses an id. An id without the form of SessionKey.ID is a session name as
// earlier versions recorded it.
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

// maxIDPart is the maximum length of one part of an id in bytes. The end of a longer part
// is replaced by a hash.
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

// LockLimits are how many rejections lock writes, and for how long. They also apply to
// rejections before a change of the limits. A limit of zero never locks.
type LockLimits struct {
	// Session limits the rejections of one session since it began or since its last lock
	// ended. User limits those of a principal for one end user within Window, and
	// Principal all of a principal within Window.
	Session, User, Principal int
	Window                   time.Duration
	// For is the duration of a lock, from the last counted rejection.
	For time.Duration
}

// DefaultLockLimits returns the limits of requirement SYN-7, which are the defaults of
// the configuration.
func DefaultLockLimits() LockLimits {
	return LockLimits{Session: 3, User: 10, Principal: 100, Window: time.Hour, For: time.Hour}
}

// Of returns the number of rejections that locks a kind of record.
func (l LockLimits) Of(kind SessionKind) int {
	switch kind {
	case SessionUser:
		return l.User
	case SessionPrincipal:
		return l.Principal
	}
	return l.Session
}

// Lock is a lock in force.
type Lock struct {
	ID    string // id of the record
	Limit int    // the number of rejections that locks
	Until time.Time
}

// SessionFilter selects records of rejections.
type SessionFilter struct {
	Tenant    *string // nil selects every tenant, "" records without one
	Principal string  // "" selects every principal
	// All includes records that are not locked.
	All bool
	// After is SessionPage.Next of the previous page.
	After string
	// Limit is the page size: at most 500; 0 is 50.
	Limit int
}

// SessionPage is a page of records, ordered by id.
type SessionPage struct {
	Sessions []Session `json:"sessions"`
	// Next is SessionFilter.After for the next page; "" on the last page.
	Next string `json:"next,omitempty"`
}
