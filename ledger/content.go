package ledger

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/memproxy/memproxy"
)

// What a content belongs to begins its ref.
const (
	refHold    = "hold/"
	refVersion = "version/"
	refDissent = "dissent/"
	refSimilar = "similar"
)

// ref names a content by the lengths and parts of what it belongs to, so that
// no two have one name.
func ref(kind string, parts ...string) string {
	for _, p := range parts {
		kind += strconv.Itoa(len(p)) + ":" + p + "/"
	}
	return kind
}

func versionRef(k memproxy.MemoryKey, number int64) string {
	return ref(refVersion, k.Backend, string(k.Kind), k.ID, strconv.FormatInt(number, 10))
}

// encrypt writes a content in the transaction. One that is there stays.
func (t *transaction) encrypt(ref, tenant string, plain []byte) error {
	e, err := t.l.opt.Vault.seal(ref, tenant, plain)
	if err != nil {
		return err
	}
	_, err = t.run(`INSERT INTO content (ref, tenant, vault, wrapped, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		ref, tenant, e.key, e.wrapped, e.body)
	return err
}

// shred destroys the key of a content, and the content.
func (t *transaction) shred(ref string) (bool, error) {
	n, err := t.run(`UPDATE content SET vault = '', wrapped = ?1, body = ?1 WHERE ref = ?2 AND vault <> ''`, []byte{}, ref)
	return n > 0, err
}

const contentColumns = `SELECT ref, tenant, vault, wrapped, body FROM content `

type content struct {
	ref, tenant string
	envelope
}

func scanContent(s scanner) (content, error) {
	var c content
	err := s.Scan(&c.ref, &c.tenant, &c.key, &c.wrapped, &c.body)
	return c, err
}

// decrypt reads a content. ErrShredded when it is gone.
func (l *Ledger) decrypt(ctx context.Context, ref, tenant string) ([]byte, error) {
	if l.opt.Vault == nil {
		return nil, ErrNoVault
	}
	ctx, cancel := context.WithTimeout(ctx, l.opt.Timeout)
	defer cancel()
	c, err := scanContent(l.reader.QueryRowContext(ctx, l.dialect.sql(contentColumns+`WHERE ref = ?`), ref))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrShredded
	}
	if err != nil {
		return nil, l.wrap("read a content", err)
	}
	return l.opt.Vault.open(ref, tenant, c.envelope)
}
