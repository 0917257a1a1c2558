package ledger

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/memproxy/memproxy"
)

// The errors of encrypted contents.
var (
	// ErrNoVault: the ledger was opened without a Vault.
	ErrNoVault = errors.New("ledger: no key to encrypt contents with")
	// ErrShredded: the content's key was destroyed, or there never was one.
	ErrShredded = fmt.Errorf("ledger: %w", memproxy.ErrGone)
	// ErrSealed: a content that none of the keys opens: it was changed, moved
	// to another item, or its key is missing.
	ErrSealed = errors.New("ledger: the content does not open")
)

// vaultDomain is the version of the format, bound into every envelope.
const vaultDomain = "memproxy vault 1"

// Vault encrypts contents: AES-256-GCM under a fresh key for each item, which
// is itself encrypted under the installation's key. Both are bound to the
// item's name and tenant, so that an envelope opens nowhere else. It also
// signs the chains of versions. It is safe for concurrent use.
//
// To rotate, start with a new signing key and the old one among Verifying, which
// is needed as long as there is something from before.
type Vault struct {
	current string // id of the key that encrypts
	keys    map[string]vaultKey

	mu     sync.Mutex // random need not be safe
	random io.Reader
}

type vaultKey struct {
	wrap, redo cipher.AEAD
	chain      []byte
}

// LoadOrCreateVaultKeys reads the vault keys of a directory, vault.key and
// vault-NAME.key, as LoadOrCreateKey reads the stamp keys. Without them held
// writes and texts of versions cannot be read: back them up, elsewhere than
// the ledger.
func LoadOrCreateVaultKeys(dir string, random io.Reader) (Keys, error) {
	return vaultKeys.loadOrCreate(dir, random)
}

// NewVault returns a vault that encrypts under keys.Signing and opens what any
// of the keys encrypted. Random gives keys and nonces; crypto/rand.Reader.
func NewVault(keys Keys, random io.Reader) (*Vault, error) {
	if keys.Signing == (Key{}) || random == nil {
		return nil, errors.New("ledger: a vault needs a key and a source of randomness")
	}
	v := &Vault{current: keys.Signing.ID(), keys: map[string]vaultKey{}, random: random}
	all := append([]Key{keys.Signing}, keys.Verifying...)
	for i, k := range all {
		id := k.ID()
		if slices.ContainsFunc(all[:i], func(o Key) bool { return o.ID() == id && o != k }) {
			return nil, errors.New("ledger: two vault keys have the id " + id + "; remove one")
		}
		wrap, err := derive(k, "wrap")
		if err != nil {
			return nil, err
		}
		chain, err := derive(k, "chain")
		if err != nil {
			return nil, err
		}
		redo, err := derive(k, "redo")
		if err != nil {
			return nil, err
		}
		one, err := newGCM(wrap)
		if err != nil {
			return nil, err
		}
		other, err := newGCM(redo)
		if err != nil {
			return nil, err
		}
		v.keys[id] = vaultKey{one, other, chain}
	}
	return v, nil
}

func derive(k Key, use string) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret[:], nil, "memproxy vault "+use, KeySize)
}

func newGCM(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// envelope is an encrypted content. Without wrapped it cannot be opened.
type envelope struct {
	key     string // id of the key that wrapped is encrypted under
	wrapped []byte // nonce and item key
	body    []byte // nonce and content
}

// bound is the associated data of an envelope.
func bound(use, ref, tenant string) []byte {
	b := appendField(nil, vaultDomain)
	b = appendField(b, use)
	b = appendField(b, ref)
	return appendField(b, tenant)
}

func (v *Vault) seal(ref, tenant string, plain []byte) (envelope, error) {
	item, err := v.bytes(KeySize)
	if err != nil {
		return envelope{}, err
	}
	defer clear(item)
	aead, err := newGCM(item)
	if err != nil {
		return envelope{}, err
	}
	body, err := v.encrypt(aead, plain, bound("content", ref, tenant))
	if err != nil {
		return envelope{}, err
	}
	wrapped, err := v.encrypt(v.keys[v.current].wrap, item, bound("key", ref, tenant))
	return envelope{v.current, wrapped, body}, err
}

func (v *Vault) open(ref, tenant string, e envelope) ([]byte, error) {
	item, err := v.unwrap(ref, tenant, e)
	if err != nil {
		return nil, err
	}
	defer clear(item)
	aead, err := newGCM(item)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrSealed, ref)
	}
	plain, err := decrypt(aead, e.body, bound("content", ref, tenant))
	if err != nil {
		return nil, fmt.Errorf("%w: %s was changed", ErrSealed, ref)
	}
	return plain, nil
}

func (v *Vault) unwrap(ref, tenant string, e envelope) ([]byte, error) {
	if len(e.wrapped) == 0 {
		return nil, ErrShredded
	}
	key, known := v.keys[e.key]
	if !known {
		return nil, fmt.Errorf("%w: %s is under key %.16q, which is missing", ErrSealed, ref, e.key)
	}
	item, err := decrypt(key.wrap, e.wrapped, bound("key", ref, tenant))
	if err != nil {
		return nil, fmt.Errorf("%w: the key of %s was changed", ErrSealed, ref)
	}
	return item, nil
}

func (v *Vault) encrypt(aead cipher.AEAD, plain, bound []byte) ([]byte, error) {
	nonce, err := v.bytes(aead.NonceSize())
	if err != nil {
		return nil, err
	}
	return aead.Seal(nonce, nonce, plain, bound), nil
}

func decrypt(aead cipher.AEAD, sealed, bound []byte) ([]byte, error) {
	n := aead.NonceSize()
	if len(sealed) < n {
		return nil, ErrSealed
	}
	return aead.Open(nil, sealed[:n], sealed[n:], bound)
}

func (v *Vault) bytes(n int) ([]byte, error) {
	b := make([]byte, n)
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, err := io.ReadFull(v.random, b); err != nil {
		return nil, fmt.Errorf("ledger: randomness: %w", err)
	}
	return b, nil
}

// sign returns the MAC over a chain's record and the id of its key.
func (v *Vault) sign(use string, data []byte) (id string, mac []byte) {
	return v.current, chainMAC(v.keys[v.current].chain, use, data)
}

// signed reports whether the MAC is this installation's.
func (v *Vault) signed(use, id string, data, mac []byte) bool {
	key, known := v.keys[id]
	return known && hmac.Equal(mac, chainMAC(key.chain, use, data))
}

func chainMAC(key []byte, use string, data []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(appendField(nil, use))
	h.Write(data)
	return h.Sum(nil)
}
