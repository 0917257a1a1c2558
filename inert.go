package memproxy

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// inertSize is the longest name that stands in a record as it is, in bytes.
const inertSize = 128

// hashPrefix begins what stands in a record in the place of a text.
const hashPrefix = "sha256:"

// Inert is a name as it stands in records: itself where it is a plain
// identifier, else a hash of it. Who reads a log, a person or a model, reads no
// sentence that a caller wrote.
func Inert(name string) string {
	if len(name) > inertSize {
		return inertHash(name)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("._:@/+~=*|-", c) >= 0:
		default:
			return inertHash(name)
		}
	}
	return name
}

// InertSession is the name of a session as it stands in records: always a
// hash, because a caller may call its session anything. Of what is one already
// it is that.
func InertSession(name string) string {
	if name == "" || isInertHash(name) {
		return name
	}
	return inertHash(name)
}

// InertID is an id of a target as it stands in records. Those of records of
// rejections keep whose they are and hide the session's name.
func InertID(id string) string {
	if !strings.HasPrefix(id, sessionPrefix) {
		return Inert(id)
	}
	k := SessionKeyOf(id)
	k.Principal, k.User, k.Name = Inert(k.Principal), Inert(k.User), InertSession(k.Name)
	return k.ID()
}

func inertHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hashPrefix + hex.EncodeToString(sum[:16])
}

func isInertHash(s string) bool {
	rest, ok := strings.CutPrefix(s, hashPrefix)
	_, err := hex.DecodeString(rest)
	return ok && len(rest) == 32 && err == nil
}
