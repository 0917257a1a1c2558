package fleet

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/internal/keyfile"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/screen"
)

const (
	// KeyFile is the fleet's private key: PKCS #8, PEM, mode 0600.
	KeyFile = "fleet.key"
	// PublicKeyFile is the public key, in the form for configurations.
	PublicKeyFile = "fleet.pub"
)

// Sign makes the next release of a policy directory and publishes it. floor means that s
// has an explicit floor.
func Sign(keyPath, dir, pack string, dirs [2]string, s policy.Statement, floor bool) (*policy.Release, error) {
	key, err := ReadKey(keyPath)
	if err != nil {
		return nil, err
	}
	b := policy.Builtin()
	if dir != "" {
		if b, err = policy.Load(dir); err != nil {
			return nil, err
		}
	}
	if pack != "" {
		if b.Screening, err = ZipPack(pack); err != nil {
			return nil, err
		}
	} else if b.Screening != nil {
		if _, err := OpenPack(b.Screening); err != nil {
			return nil, err
		}
	}
	if _, err := cedar.Compile(b); err != nil {
		return nil, err
	}
	store, err := xds.NewDir(dirs[0], dirs[1], []ed25519.PublicKey{key.Public().(ed25519.PublicKey)})
	if err != nil {
		return nil, err
	}
	last, err := store.Last()
	if err != nil {
		return nil, err
	}
	if s.Number == 0 {
		s.Number = last + 1
	} else if s.Number <= last {
		return nil, fmt.Errorf("release %d exists already; numbers must increase", last)
	}
	if !floor {
		if s.Floor, err = defaultFloor(store, s); err != nil {
			return nil, err
		}
	}
	r, err := policy.SignRelease(b, s, key)
	if err != nil {
		return nil, err
	}
	return r, store.Publish(r)
}

// defaultFloor returns the number of the newest release of the statement's channel that was not
// stopped, or the statement's own number if there is none.
func defaultFloor(store *xds.Dir, s policy.Statement) (uint64, error) {
	list, _, err := store.Releases()
	if err != nil {
		return 0, err
	}
	marks, err := store.Marks()
	if err != nil {
		return 0, err
	}
	stopped := map[uint64]bool{}
	for _, m := range marks {
		stopped[m.Release] = stopped[m.Release] || m.Kind == xds.MarkStopped
	}
	floor := s.Number
	for _, r := range list {
		if r.Fleet == s.Fleet && r.Selector.String() == s.Selector.String() && !stopped[r.Number] {
			floor = r.Number
		}
	}
	return floor, nil
}

// WithdrawRelease withdraws a release from all sidecars.
func WithdrawRelease(dirs [2]string, number uint64, reason string) error {
	store, err := xds.NewDir(dirs[0], dirs[1], nil)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dirs[0], xds.ReleaseFile(number))); err != nil {
		return fmt.Errorf("release %d not found: %w", number, err)
	}
	return store.Put(xds.Mark{Release: number, Kind: xds.MarkStopped, At: time.Now().UTC(), Reason: reason})
}

// NewKey makes the signing key in a directory that has none. It returns the path, and the
// public key in the form for configurations.
func NewKey(dir string) (path, public string, err error) {
	pub, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", "", err
	}
	text, err := keyfile.Encode(private)
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", err
	}
	path, public = filepath.Join(dir, KeyFile), base64.StdEncoding.EncodeToString(pub)
	if err := durable.Create(path, text); err != nil { // a key is never overwritten
		return "", "", err
	}
	return path, public, os.WriteFile(filepath.Join(dir, PublicKeyFile), []byte(public+"\n"), 0o644)
}

// ReadKey reads the private key that signs releases.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	return keyfile.Read(path, 0o077)
}

// OpenPack reads the screening pack of a bundle: a zipped directory.
func OpenPack(b []byte) (*screen.Pack, error) {
	var p *screen.Pack
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err == nil {
		p, err = screen.Load(z)
	}
	if err != nil {
		return nil, fmt.Errorf("screening.pack: %w", err)
	}
	return p, nil
}

// ZipPack zips a pack's directory deterministically.
func ZipPack(dir string) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		// Times and modes are omitted, because they differ between checkouts.
		w, err := z.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Deflate})
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	if _, err := OpenPack(out.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
