package panel

import (
	"crypto/sha256"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/screen/secrets"
	"github.com/memproxy/memproxy/screen/similar"
)

// DefaultCacheSize is how many texts' judgements are kept, in about 6 MB: what is
// read again and again is judged once.
const DefaultCacheSize = 32768

// looks is what the layers find that look at one text alone, whoever wrote it.
// Nil is nothing.
type looks struct {
	danger   []memproxy.Finding // of the deterministic layer, not weighed yet
	personal []memproxy.Finding // credentials and personal data
	like     similar.Match      // the known attack that it resembles most
}

type textHash = [sha256.Size]byte

// known returns what is kept of an operation's texts, by their items' places, and
// which items have to be looked at.
func (p *Panel) known(op *memproxy.Operation) (found []*looks, missing []int) {
	found = make([]*looks, len(op.Items))
	for i := range op.Items {
		it, ok := &op.Items[i], false
		if !judged(it) {
			continue
		}
		if p.cache != nil {
			found[i], ok = p.cache.Get(sha256.Sum256([]byte(it.Text)))
		}
		if !ok {
			missing = append(missing, i)
		}
	}
	return found, missing
}

// look looks at a text and keeps what it finds.
func (p *Panel) look(text string) *looks {
	found := p.examine(text)
	if p.cache != nil {
		p.cache.Add(sha256.Sum256([]byte(text)), found)
	}
	return found
}

func (p *Panel) examine(text string) *looks {
	l := looks{danger: p.opt.Base.Findings(text)}
	if p.opt.Secrets {
		l.personal = personal(text)
	}
	if p.opt.Likeness != nil {
		l.like = p.opt.Likeness.Match(text, memproxy.SourceHostile)
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
