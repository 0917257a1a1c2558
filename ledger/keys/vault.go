package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/memproxy/memproxy"
)

// The errors of encrypted contents.
var (
	// ErrNoVault means that the ledger was opened without a Vault.
	ErrNoVault = errors.New("ledger: no key to encrypt contents with")
	// ErrShredded means that the content's key was destroyed, or that there never was one.
	ErrShredded = fmt.Errorf("ledger: %w", memproxy.ErrGone)
	// ErrSealed means that no key opens the content: it was changed or moved to another
	// item, or its key is missing.
	ErrSealed = errors.New("ledger: the content cannot be decrypted")
)

// vaultDomain is the version of the format. The associated data of every envelope has it.
const vaultDomain = "memproxy vault 1"

// Vault encrypts contents with AES-256-GCM under a fresh key for each item, which is
// itself encrypted under the installation's key (envelope encryption). Both are bound to
// the item's name and tenant, so that an envelope opens nowhere else. Vault also signs the
// chains of versions and the rows of the store. It is safe for concurrent use.
//
// To rotate the key, start with a new signing key and the old one in Verifying. The old
// key is needed as long as something exists that was encrypted or signed with it.
//
// A nil Vault encrypts and opens nothing (ErrNoVault), signs and verifies nothing, and
// leaves rows without a mark.
type Vault struct {
	current [idSize]byte // id of the key that encrypts
	keys    map[[idSize]byte]vaultKey
}

type vaultKey struct {
	wrap, redo cipher.AEAD
	macs       [2]*macPool // by use
}

// LoadOrCreateVault reads the vault keys of a directory, vault.key and vault-NAME.key,
// as LoadOrCreate reads the stamp keys. Without them held writes and texts of versions
// cannot be read: back them up, in another place than the ledger.
func LoadOrCreateVault(dir string) (Set, error) { return vaultKeys.loadOrCreate(dir) }

// NewVault returns a vault that encrypts under keys.Signing and opens what any of the
// keys encrypted.
func NewVault(keys Set) (*Vault, error) {
	if keys.Signing == (Key{}) {
		return nil, errors.New("keys: a vault needs a key")
	}
	byID, err := keys.byID(vaultKeys)
	if err != nil {
		return nil, err
	}
	v := &Vault{current: keys.Signing.id(), keys: map[[idSize]byte]vaultKey{}}
	for _, k := range byID {
		derive := func(use string) []byte { return k.derive("memproxy vault " + use) }
		v.keys[k.id()] = vaultKey{newGCM(derive("wrap")), newGCM(derive("redo")), [...]*macPool{newMACPool(derive("chain")), newMACPool(derive("row"))}}
	}
	return v, nil
}

// newGCM returns AES-GCM with a random nonce, which precedes what it encrypts.
func newGCM(key []byte) cipher.AEAD {
	return must(cipher.NewGCMWithRandomNonce(must(aes.NewCipher(key))))
}

// must returns a value whose error is possible only for keys of another length.
func must[T any](v T, err error) T {
	if err != nil {
		panic("keys: " + err.Error())
	}
	return v
}

// associatedData returns the associated data of an envelope.
func associatedData(use, ref, tenant string) []byte {
	return AppendFields(make([]byte, 0, 64+len(ref)+len(tenant)), []string{vaultDomain, use, ref, tenant})
}

// Seal encrypts a content for its item and tenant. The envelope is the id of the key that
// the item's key is encrypted under, then that key and the content, each after its nonce.
func (v *Vault) Seal(ref, tenant string, plain []byte) ([]byte, error) {
	if v == nil {
		return nil, ErrNoVault
	}
	item := make([]byte, Size)
	defer clear(item)
	_, _ = rand.Read(item) // never fails
	envelope := append(make([]byte, 0, idSize+wrappedSize+len(plain)+overhead), v.current[:]...)
	envelope = v.keys[v.current].wrap.Seal(envelope, nil, item, associatedData("key", ref, tenant))
	return newGCM(item).Seal(envelope, nil, plain, associatedData("content", ref, tenant)), nil
}

// Open decrypts what Seal encrypted for the same item and tenant. ErrShredded means
// that the envelope was emptied, ErrSealed that it cannot be opened.
func (v *Vault) Open(ref, tenant string, envelope []byte) ([]byte, error) {
	switch {
	case v == nil:
		return nil, ErrNoVault
	case len(envelope) == 0:
		return nil, ErrShredded
	case len(envelope) < idSize+wrappedSize:
		return nil, fmt.Errorf("%w: %s was cut off", ErrSealed, ref)
	}
	key, known := v.keyOf(envelope)
	if !known {
		return nil, fmt.Errorf("%w: %s is encrypted with key %x, which is missing", ErrSealed, ref, envelope[:idSize])
	}
	wrapped, body := envelope[idSize:idSize+wrappedSize], envelope[idSize+wrappedSize:]
	item, err := key.wrap.Open(nil, nil, wrapped, associatedData("key", ref, tenant))
	if err != nil {
		return nil, fmt.Errorf("%w: the key of %s was changed", ErrSealed, ref)
	}
	defer clear(item)
	plain, err := newGCM(item).Open(nil, nil, body, associatedData("content", ref, tenant))
	if err != nil {
		return nil, fmt.Errorf("%w: %s was changed", ErrSealed, ref)
	}
	return plain, nil
}

// idSize is the size in bytes of the id of a key at the beginning of a mark or envelope,
// overhead that of a nonce and a tag, and wrappedSize that of an item's key with both.
const idSize, overhead, wrappedSize = 4, 12 + 16, Size + overhead

// keyOf returns the key that a mark or envelope names.
func (v *Vault) keyOf(named []byte) (vaultKey, bool) {
	if len(named) < idSize {
		return vaultKey{}, false
	}
	key, known := v.keys[[idSize]byte(named)]
	return key, known
}

// macUse is what a MAC is for. Its MACs have a key of their own.
type macUse int

const (
	chainMAC macUse = iota
	rowMAC
)

// macSizes has the sizes of MACs in bytes. Forging one of 16 takes 2^128 guesses.
var macSizes = [...]int{chainMAC: sha256.Size, rowMAC: 16}

// Sign returns the mark of a chain's record: the id of the current key, and a MAC.
func (v *Vault) Sign(use string, data []byte) []byte { return v.mark(chainMAC, chained(use, data)) }

// Signed reports whether the mark of a chain's record was made by this installation.
func (v *Vault) Signed(use string, data, mark []byte) bool {
	return v != nil && v.marked(chainMAC, chained(use, data), mark)
}

func chained(use string, data []byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(AppendField(b, use), data...) }
}

// MarkRow returns the mark of a row of the store: the id of the current key, and a MAC
// over what row appends. row should append the name of the table and the key of the
// row, so that a mark is not valid for another row.
func (v *Vault) MarkRow(row func([]byte) []byte) []byte { return v.mark(rowMAC, row) }

// MarkedRow reports whether the mark was made by this installation for that row.
func (v *Vault) MarkedRow(row func([]byte) []byte, mark []byte) bool {
	return v == nil || v.marked(rowMAC, row, mark)
}

func (v *Vault) mark(use macUse, data func([]byte) []byte) []byte {
	if v == nil {
		return []byte{}
	}
	mark := make([]byte, idSize+sha256.Size)
	copy(mark, v.current[:])
	v.keys[v.current].macs[use].sum(data, mark[idSize:])
	return mark[:idSize+macSizes[use]]
}

func (v *Vault) marked(use macUse, data func([]byte) []byte, mark []byte) bool {
	key, known := v.keyOf(mark)
	if !known {
		return false
	}
	var sum [sha256.Size]byte
	key.macs[use].sum(data, sum[:])
	return hmac.Equal(sum[:macSizes[use]], mark[idSize:])
}

// MarkKnown reports whether the vault has the key of a mark, if it names one.
func (v *Vault) MarkKnown(mark []byte) bool {
	if v == nil || len(mark) < idSize {
		return true
	}
	_, known := v.keyOf(mark)
	return known
}

// Current returns the id of the key that encrypts.
func (v *Vault) Current() string { return hex.EncodeToString(v.current[:]) }

// SealEntry encrypts a numbered entry of a log under the current key.
func (v *Vault) SealEntry(number uint64, entry []byte) []byte {
	return v.keys[v.current].redo.Seal(nil, nil, entry, associatedData("redo", strconv.FormatUint(number, 10), ""))
}

// OpenEntry decrypts what SealEntry encrypted under the key with this id.
func (v *Vault) OpenEntry(id string, number uint64, sealed []byte) ([]byte, error) {
	named, _ := hex.DecodeString(id)
	key, known := v.keyOf(named)
	if !known || id != hex.EncodeToString(named[:idSize]) {
		return nil, fmt.Errorf("%w: it is encrypted with key %.16q, which is missing", ErrSealed, id)
	}
	entry, err := key.redo.Open(nil, nil, sealed, associatedData("redo", strconv.FormatUint(number, 10), ""))
	if err != nil {
		return nil, fmt.Errorf("%w: it was changed", ErrSealed)
	}
	return entry, nil
}
