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
	refKept    = "kept/"
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

// Keep encrypts something beside the ledger's own contents, such as the
// original of a sanitised span, under a name of the caller's. What is kept
// under the name already stays. It is on the disk when Keep returns.
func (l *Ledger) Keep(ctx context.Context, name, tenant string, plain []byte) error {
	if l.opt.Vault == nil {
		return ErrNoVault
	}
	if name == "" || storable(name) != nil || storable(tenant) != nil {
		return refused("what is kept needs a name")
	}
	return l.change(ctx, func(t *transaction) error { return t.encrypt(ref(refKept, name), tenant, plain) })
}

// Kept returns what Keep was given. ErrShredded when there is nothing.
func (l *Ledger) Kept(ctx context.Context, name, tenant string) ([]byte, error) {
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	return l.decrypt(ctx, ref(refKept, name), tenant)
}

// Unkeep destroys what Keep was given. It reports whether there was anything.
func (l *Ledger) Unkeep(ctx context.Context, name string) (bool, error) {
	return l.erase(ctx, ref(refKept, name))
}

// erase shreds one content so that the disk does not hold it either.
func (l *Ledger) erase(ctx context.Context, ref string) (bool, error) {
	gone := false
	err := l.do(ctx, &job{erase: true, durable: true, also: func(t *transaction) (err error) {
		gone, err = t.shred(ref)
		return err
	}})
	if err != nil {
		return false, err
	}
	return gone, nil
}

// rewrapStep is how many keys one transaction encrypts anew.
const rewrapStep = 200

// Rewrap encrypts the keys of all contents under the vault's current key and
// returns how many it changed, also along with an error. It may be stopped and
// run again. Contents that do not open are skipped, counted and left as they
// are.
func (l *Ledger) Rewrap(ctx context.Context) (changed, skipped int, err error) {
	v := l.opt.Vault
	if v == nil {
		return 0, 0, ErrNoVault
	}
	for after := ""; ; {
		found, err := look(ctx, l, "look up contents", scanContent,
			contentColumns+`WHERE ref > ? AND vault NOT IN ('', ?) ORDER BY ref LIMIT ?`, after, v.current, rewrapStep)
		if err != nil || len(found) == 0 {
			return changed, skipped, err
		}
		after = found[len(found)-1].ref
		n, bad := 0, 0
		err = l.do(ctx, &job{durable: true, erase: true, also: func(t *transaction) error {
			n, bad = 0, 0
			for _, c := range found {
				e, err := v.rewrap(c.ref, c.tenant, c.envelope)
				if err != nil {
					bad++
					continue
				}
				// Only if it was not shredded or rewrapped meanwhile.
				done, err := t.run(`UPDATE content SET vault = ?, wrapped = ? WHERE ref = ? AND vault = ?`, e.key, e.wrapped, c.ref, c.key)
				if err != nil {
					return err
				}
				n += int(done)
			}
			return nil
		}})
		if err != nil {
			return changed, skipped, err
		}
		changed, skipped = changed+n, skipped+bad
	}
}
