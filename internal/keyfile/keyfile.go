// Package keyfile reads and writes the files of private keys that sign: Ed25519,
// PKCS #8, PEM.
package keyfile

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"

	"github.com/memproxy/memproxy/internal/durable"
)

// maxKey is the maximum size of a file that is read, in bytes.
const maxKey = 64 << 10

// Read reads a key that those of the mode bits may do nothing with.
func Read(path string, others fs.FileMode) (ed25519.PrivateKey, error) {
	b, mode, err := durable.ReadMode(path, maxKey)
	if err != nil {
		return nil, err
	}
	if mode&others != 0 {
		return nil, fmt.Errorf("%s may be read by others (mode %04o); make it 0600", path, mode)
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s is not a PEM private key", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PKCS #8 key", path)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an Ed25519 key", path)
	}
	return key, nil
}

// Encode is a key as its file holds it.
func Encode(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
