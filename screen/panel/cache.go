package panel

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/normal"
	"github.com/memproxy/memproxy/screen/secrets"
	"github.com/memproxy/memproxy/screen/similar"
	"github.com/memproxy/memproxy/screen/synapse"
)

const (
	// DefaultCacheSize is the number of texts whose results are cached: at least this
	// many, at most twice as many; fewer with findings, each of which counts as another
	// text. A text that is read again and again is judged once.
	DefaultCacheSize = 65536
	// readTime bounds the screening of one answer. The results so far stay cached, so
	// that a retry continues from there.
	readTime = 30 * time.Second
)

// textFindings has the findings of the layers that depend on the text alone. Nil means
// none.
type textFindings struct {
	danger   []memproxy.Finding // of the deterministic layer, not weighed yet
	personal []memproxy.Finding // credentials and personal data
	like     similar.Match      // the most similar known attack
	patterns []memproxy.Finding // of governed fields (synapse), if they were looked for
	governed bool               // they were
}

// unremarkable has no findings, patterns included. Most texts share it.
var unremarkable = &textFindings{governed: true}

// count is the number of the findings.
func (f *textFindings) count() int {
	if f == nil {
		return 0
	}
	return len(f.danger) + len(f.personal) + len(f.patterns)
}

type textHash = [sha256.Size]byte

// itemFindings returns the findings of an operation's texts, by item index. A write has its
// caller's slot already. A read takes a slot for each text that is not cached, so that
// the reads of one caller alternate and a short one does not wait for a long one
// (head-of-line blocking).
func (p *Panel) itemFindings(ctx context.Context, s memproxy.Screening) (found []*textFindings, err error) {
	found = make([]*textFindings, len(s.Operation.Items))
	begun := p.opt.Clock()
	for i := range s.Operation.Items {
		it := &s.Operation.Items[i]
		if !judged(it) {
			continue
		}
		sum, ok := memproxy.Sum256(it.Text), false
		governed := p.governed(s, it)
		if found[i], ok = p.known(sum, governed); ok {
			continue
		}
		if s.FromBackend && p.opt.Clock().Sub(begun) > readTime {
			return nil, errBusy
		}
		if found[i], err = p.findingsOf(ctx, s, sum, it.Text, governed); err != nil {
			return nil, err
		}
	}
	return found, ctx.Err()
}

// known returns the cached findings of a text, if there are any with what is asked.
func (p *Panel) known(sum textHash, governed bool) (*textFindings, bool) {
	l, ok := p.cache.Get(sum)
	return l, ok && (!governed || l != nil && l.governed)
}

// findingsOf returns the findings of a text and caches them. Concurrent requests for one
// text share one computation.
func (p *Panel) findingsOf(ctx context.Context, s memproxy.Screening, sum textHash, text string, governed bool) (*textFindings, error) {
	if s.FromBackend {
		leave, err := p.shares.enter(ctx, asker(&s.Principal))
		if err != nil {
			return nil, err
		}
		defer leave()
	} else if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := string(sum[:])
	if governed {
		key += "governed"
	}
	found, _, _ := p.looking.Do(key, func() (any, error) {
		l, ok := p.known(sum, governed)
		if !ok {
			l = p.examine(text, governed)
			p.cache.Add(sum, l)
		}
		return l, nil
	})
	return found.(*textFindings), nil
}

// examine runs the layers that depend on the text alone, with one reading of it. governed
// includes the patterns of governed fields.
func (o *Options) examine(text string, governed bool) *textFindings {
	reading := normal.Read(text)
	l := textFindings{danger: o.Base.FindingsIn(&reading, text), governed: governed}
	if governed {
		l.patterns = synapse.Patterns(&reading, text)
	}
	if o.Secrets {
		l.personal = personal(text)
	}
	if o.Likeness != nil {
		l.like = o.Likeness.Match(text, memproxy.SourceHostile)
	}
	switch {
	case l.count() > 0 || l.like.OverThreshold():
		return &l
	case governed:
		return unremarkable
	}
	return nil
}

// personal finds credentials and personal data. They have no score: whether they may be
// kept is for the policy to decide.
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

// unescape resolves the escapes of JSON pointers.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// labelled finds credentials in metadata that are recognisable only by their member name,
// as in {"password": "…"}: by itself the value is an ordinary word.
func labelled(op *memproxy.Operation, findings []memproxy.Finding) []memproxy.Finding {
	for i := range op.Items {
		it := &op.Items[i]
		_, path, in := strings.Cut(it.Pointer, "/metadata/")
		if !in || it.Kind != memproxy.ItemMetadata {
			continue
		}
		if strings.IndexByte(path, '~') >= 0 { // few have escapes
			path = unescape.Replace(path)
		}
		name := strings.TrimRight(path, "/0123456789") // list elements have the name of the list
		class := secrets.ClassifyNamed(name[strings.LastIndexByte(name, '/')+1:], it.Text)
		if class != "" && !strings.HasSuffix("/"+path, "/"+it.Text) { // the text is a member name, not a value
			findings = append(findings, memproxy.Finding{Rule: prefixSecret + string(class), Severity: class.Severity(), Item: i, End: len(it.Text)})
		}
	}
	return findings
}
