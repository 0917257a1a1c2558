package panel

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/secrets"
	"github.com/memproxy/memproxy/screen/similar"
)

const (
	// DefaultCacheSize is how many texts' judgements are kept at least, and half of how
	// many at most, in 8 MB: what is read again and again is judged once.
	DefaultCacheSize = 65536
	// readTime bounds the screening of one answer. What was judged until then is kept,
	// so that the next reads of it get on from there.
	readTime = 30 * time.Second
)

// looks is what the layers find that look at one text alone, whoever wrote it.
// Nil is nothing.
type looks struct {
	danger   []memproxy.Finding // of the deterministic layer, not weighed yet
	personal []memproxy.Finding // credentials and personal data
	like     similar.Match      // the known attack that it resembles most
}

type textHash = [sha256.Size]byte

// known returns what is found in an operation's texts, by their items' places. A write
// has its caller's place already. A read takes one for each text that has to be looked
// at, so that the caller's reads take turns and a short one does not wait for a long one.
func (p *Panel) known(ctx context.Context, s memproxy.Screening) (found []*looks, err error) {
	found = make([]*looks, len(s.Operation.Items))
	begun := p.opt.Clock()
	for i := range s.Operation.Items {
		it := &s.Operation.Items[i]
		if !judged(it) {
			continue
		}
		sum, ok := memproxy.Sum256(it.Text), false
		if found[i], ok = p.cache.Get(sum); ok {
			continue
		}
		if s.Reading && p.opt.Clock().Sub(begun) > readTime {
			return nil, errBusy
		}
		if found[i], err = p.look(ctx, s, sum, it.Text); err != nil {
			return nil, err
		}
	}
	return found, ctx.Err()
}

// look returns what is found in a text, and keeps it. A text is looked at once, however
// many ask for it meanwhile.
func (p *Panel) look(ctx context.Context, s memproxy.Screening, sum textHash, text string) (*looks, error) {
	if s.Reading {
		leave, err := p.shares.enter(ctx, asker(&s.Principal))
		if err != nil {
			return nil, err
		}
		defer leave()
	} else if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, _, _ := p.looking.Do(string(sum[:]), func() (any, error) {
		l, ok := p.cache.Get(sum)
		if !ok {
			l = p.examine(text)
			p.cache.Add(sum, l)
		}
		return l, nil
	})
	return found.(*looks), nil
}

func (o *Options) examine(text string) *looks {
	l := looks{danger: o.Base.Findings(text)}
	if o.Secrets {
		l.personal = personal(text)
	}
	if o.Likeness != nil {
		l.like = o.Likeness.Match(text, memproxy.SourceHostile)
	}
	if len(l.danger)+len(l.personal) == 0 && !l.like.Over() {
		return nil
	}
	return &l
}

// personal finds credentials and personal data. They have no score: whether they
// are kept is a question of their own, for the policy.
func personal(text string) (found []memproxy.Finding) {
	for _, hit := range secrets.Scan(text) {
		rule := "pii." + string(hit.Class)
		if hit.Class.Secret() {
			rule = prefixSecret + string(hit.Class)
		}
		found = append(found, memproxy.Finding{Rule: rule, Severity: hit.Class.Severity(), Start: hit.Start, End: hit.End})
	}
	return found
}

// unescape undoes the escapes of names in pointers.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// labelled finds the credentials in metadata that only their names give away, as in
// {"password": "…"}: to a layer that looks at one text, the value is any word.
func labelled(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		it := &op.Items[i]
		_, path, in := strings.Cut(it.Pointer, "/metadata/")
		if !in || it.Kind != memproxy.ItemMetadata {
			continue
		}
		path = unescape.Replace(path)
		name := strings.TrimRight(path, "/0123456789") // of a list, what its values are called
		class := secrets.Given(name[strings.LastIndexByte(name, '/')+1:], it.Text)
		if class != "" && !strings.HasSuffix("/"+path, "/"+it.Text) { // which is a name by itself
			findings = append(findings, memproxy.Finding{Rule: prefixSecret + string(class), Severity: class.Severity(), Item: i, End: len(it.Text)})
		}
	}
	return findings
}
