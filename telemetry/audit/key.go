package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/keyfile"
	"golang.org/x/mod/sumdb/note"
)

// The names of the files of LoadOrCreateKey.
const (
	KeyFile       = "audit.key" // PKCS #8, PEM, mode 0600
	PublicKeyFile = "audit.pub" // SubjectPublicKeyInfo, PEM
)

// LoadOrCreateKey reads the Ed25519 key in dir, or makes one if there is none. It
// refuses a key file that is readable by others.
func LoadOrCreateKey(dir string) (ed25519.PrivateKey, error) {
	key, err := readKey(filepath.Join(dir, KeyFile), 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		return createKey(dir)
	}
	return key, err
}

// LoadKey reads an Ed25519 key from a file that is managed externally. The file may be
// readable by its group, like a mounted Secret, but not by others.
func LoadKey(path string) (ed25519.PrivateKey, error) { return readKey(path, 0o007) }

func readKey(path string, others fs.FileMode) (ed25519.PrivateKey, error) {
	key, err := keyfile.Read(path, others)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return key, nil
}

func createKey(dir string) (ed25519.PrivateKey, error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	text, wrong := keyfile.Encode(key)
	pubDER, bad := x509.MarshalPKIXPublicKey(pub)
	if err = errors.Join(os.MkdirAll(dir, 0o700), err, wrong, bad); err == nil {
		err = durable.Write(filepath.Join(dir, PublicKeyFile), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pubDER}))
	}
	if err == nil {
		err = durable.Write(filepath.Join(dir, KeyFile), text)
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return key, nil
}

// VerifierKey returns the public key in the format of package note:
// "<origin>+<hash>+<base64>".
func VerifierKey(origin string, pub ed25519.PublicKey) (string, error) {
	vkey, err := note.NewEd25519VerifierKey(origin, pub)
	if err != nil {
		return "", err
	}
	if _, err := note.NewVerifier(vkey); err != nil {
		return "", errors.New("a log's name must not be empty or contain spaces, plus signs or control characters")
	}
	if strings.ContainsFunc(origin, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", errors.New("a log's name must not contain control characters")
	}
	return vkey, nil
}

// CheckOrigin reports why a log cannot have a name.
func CheckOrigin(origin string) error {
	_, err := VerifierKey(origin, make(ed25519.PublicKey, ed25519.PublicKeySize))
	return err
}

func newSigner(origin string, key ed25519.PrivateKey) (s note.Signer, vkey string, v note.Verifier, err error) {
	if vkey, err = VerifierKey(origin, key.Public().(ed25519.PublicKey)); err == nil {
		v, err = note.NewVerifier(vkey)
	}
	if err == nil {
		const ed25519Key = "\x01" // package note's number of the algorithm
		private := base64.StdEncoding.EncodeToString(append([]byte(ed25519Key), key.Seed()...))
		s, err = note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", origin, v.KeyHash(), private))
	}
	if err != nil {
		return nil, "", nil, fmt.Errorf("audit: origin %q: %w", origin, err)
	}
	return s, vkey, v, nil
}
