package fleet

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/memproxy/memproxy/screen"
)

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
		// Times and modes are omitted: they differ between checkouts.
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
