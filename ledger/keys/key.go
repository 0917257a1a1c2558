// Package keys has the keys that an installation signs and encrypts with: Signer signs
// provenance stamps, and Vault encrypts held writes and versions.
//
// It promises that a stamp which Verify accepts was signed here, for the tenant that
// the reader names, and is unchanged; that an envelope opens only for its item and
// tenant; and that no key is printed or logged.
package keys

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/internal/durable"
)

// Size is the size of a key in bytes.
const Size = 32

// Key is a secret of the installation, which signs stamps or encrypts contents. It
// prints as its id.
type Key struct{ secret [Size]byte }

// New makes a key from Size secret bytes.
func New(secret []byte) (Key, error) {
	var k Key
	if len(secret) != Size {
		return k, fmt.Errorf("keys: a key has %d bytes, not %d", Size, len(secret))
	}
	copy(k.secret[:], secret)
	if k == (Key{}) {
		return k, errors.New("keys: a key must not be all zeros")
	}
	return k, nil
}

// ID identifies the key in signatures, as 8 hex digits that reveal nothing of the secret.
func (k Key) ID() string {
	id := k.id()
	return hex.EncodeToString(id[:])
}

func (k Key) id() [idSize]byte {
	sum := sha256.Sum256(append([]byte("memproxy stamp key id\x00"), k.secret[:]...))
	return [idSize]byte(sum[:])
}

// Derive returns a key for another purpose. Neither this key nor a key for a further
// purpose can be computed from it.
func (k Key) Derive(purpose string) []byte { return k.derive("memproxy derived key\x00" + purpose) }

func (k Key) derive(info string) []byte {
	return must(hkdf.Key(sha256.New, k.secret[:], nil, info, Size))
}

// String returns the id; a key does not print its secret.
func (k Key) String() string { return "key " + k.ID() }

// Format prints the id for every verb, so that none prints the secret.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue logs the id instead of the secret.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Set is an installation's keys of one kind.
type Set struct {
	Signing Key
	// Verifying has older keys, which still verify what they signed and decrypt what they
	// encrypted.
	Verifying []Key
}

func (s *Set) byID(kind keyKind) (map[string]Key, error) {
	keys := map[string]Key{}
	for _, k := range append([]Key{s.Signing}, s.Verifying...) {
		id := k.ID()
		if other, taken := keys[id]; taken && other != k {
			return nil, fmt.Errorf("keys: two %s keys have the id %s; remove one", kind, id)
		}
		keys[id] = k
	}
	return keys, nil
}

// keyKind is the kind of the keys in a directory: NAME.key is the current key,
// NAME-*.key are older ones.
type keyKind string

// The kinds of keys.
const (
	stampKeys keyKind = "stamp"
	vaultKeys keyKind = "vault"
)

// LoadOrCreate reads the stamp keys of a directory: stamp.key signs, every
// stamp-NAME.key only verifies. To rotate, rename stamp.key to stamp-NAME.key and
// restart, which creates a new stamp.key. The files contain base64 and have mode 0600;
// one that others may read is an error. If two processes start in an empty directory at
// once, both get the same key.
func LoadOrCreate(dir string) (Set, error) { return stampKeys.loadOrCreate(dir) }

func (kind keyKind) loadOrCreate(dir string) (Set, error) {
	var keys Set
	path := filepath.Join(dir, string(kind)+".key")
	key, err := kind.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = kind.create(dir, path); err == nil {
			key, err = kind.read(path)
		}
	}
	if err != nil {
		return keys, err
	}
	keys.Signing = key
	old, err := fs.Glob(os.DirFS(dir), string(kind)+"-*.key")
	if err != nil {
		return keys, fmt.Errorf("keys: %s keys: %w", kind, err)
	}
	for _, name := range old {
		key, err := kind.read(filepath.Join(dir, name))
		if err != nil {
			return keys, err
		}
		keys.Verifying = append(keys.Verifying, key)
	}
	return keys, nil
}

func (kind keyKind) read(path string) (Key, error) {
	secret, err := readSecret(path)
	if err != nil {
		return Key{}, fmt.Errorf("keys: %s key: %w", kind, err)
	}
	key, err := New(secret)
	if err != nil {
		err = fmt.Errorf("%w (%s)", err, path)
	}
	return key, err
}

func readSecret(path string) ([]byte, error) {
	text, mode, err := durable.ReadMode(path, 1024)
	if err != nil {
		return nil, err
	}
	if mode&0o007 != 0 {
		return nil, fmt.Errorf("%s: accessible to all users of this machine (mode %04o); set mode 600", path, mode)
	}
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		err = fmt.Errorf("%s: not base64", path) // the decoder's error would quote a byte of the key
	}
	return secret, err
}

// create makes a file with a new key, unless it exists.
func (kind keyKind) create(dir, path string) error {
	secret := make([]byte, Size)
	_, _ = rand.Read(secret) // never fails
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = durable.Create(path, []byte(base64.StdEncoding.EncodeToString(secret)+"\n"))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // if two processes create a key, the first one's is used
		return fmt.Errorf("keys: make a %s key: %w", kind, err)
	}
	return nil
}
