package review

import (
	"context"
	"fmt"

	"github.com/memproxy/memproxy"
)

// PatternView is one span that was taken out of a text, by its reference.
type PatternView struct {
	memproxy.Placeholder
	// Content is the span as it is, on request.
	Content *ContentView `json:"content,omitempty"`
}

// memoryPattern shows what a placeholder of a flagged memory stands for. The
// spans are those of the text for which it was flagged; any other text of the
// memory has no references.
func memoryPattern(c *call) (any, error) {
	k, tenant, err := c.memory()
	if err != nil {
		return nil, err
	}
	standings, err := c.api.opt.Store.Standings(c.ctx(), k.Backend, k.Kind, []string{k.ID})
	if err != nil {
		return nil, err
	}
	st := standings[k.ID]
	if st.State != memproxy.StateFlagged || st.Text == "" {
		return nil, notFound()
	}
	versions, err := c.api.opt.Store.History(c.ctx(), k, 0, maxHistory)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		if v.SHA256 != st.Text {
			continue
		}
		v, err := c.api.opt.Store.Version(c.ctx(), k, v.Number)
		if err != nil {
			return nil, err
		}
		subject := fmt.Sprintf("pattern/%s/%s/%s/%s", k.Backend, k.Kind, k.ID, st.Text)
		return c.pattern(v.Text, st.Findings, subject, func() error { return c.record(tenant, k.Backend, v.Decision, k.ID) })
	}
	return nil, notFound()
}

// holdPattern shows what a placeholder of a held write's text stands for.
func holdPattern(c *call) (any, error) {
	h, err := c.hold()
	if err != nil {
		return nil, err
	}
	_, content, err := c.api.opt.Store.HoldContent(c.ctx(), h.ID)
	if err != nil {
		return nil, err
	}
	pointer := c.req.URL.Query().Get("pointer")
	for i, text := range content.Texts {
		if text.Pointer != pointer && (pointer != "" || len(content.Texts) > 1) {
			continue
		}
		var findings []memproxy.Finding
		for _, f := range h.Findings {
			if f.Item == i {
				findings = append(findings, f)
			}
		}
		return c.pattern(text.Text, findings, fmt.Sprintf("pattern/hold/%s/%d", h.ID, i), func() error {
			return c.record(h.Tenant, h.Backend, h.ID, h.ID)
		})
	}
	return nil, notFound()
}

// pattern shows one span of a text: where it is and what was found there, and
// its words to who may see them, confirmed and on record.
func (c *call) pattern(text string, findings []memproxy.Finding, subject string, record func() error) (any, error) {
	_, holes := memproxy.Sanitise(text, findings)
	for _, hole := range holes {
		if hole.Name != "["+c.req.PathValue("pattern")+"]" {
			continue
		}
		view := PatternView{Placeholder: hole}
		full, err := c.wantsFull(subject+"/"+hole.Name, record)
		if full && err == nil {
			view.Content = &ContentView{Warning: warning, Body: text[hole.Offset : hole.Offset+hole.Length]}
		}
		return view, err
	}
	return nil, notFound()
}

func memoryPatternCmd(ctx context.Context, in *invocation) error {
	k, err := in.key()
	if err != nil {
		return err
	}
	v, err := in.client.Pattern(ctx, k, in.ids[1], in.f.full)
	return in.showPattern(v, err)
}

func holdsPattern(ctx context.Context, in *invocation) error {
	v, err := in.client.HoldPattern(ctx, in.ids[0], in.f.pointer, in.ids[1], in.f.full)
	return in.showPattern(v, err)
}

func (in *invocation) showPattern(v PatternView, err error) error {
	if err != nil {
		return err
	}
	return in.print(v, func(p *printer) {
		p.line("%s: %s, severity %s, at %d, %d bytes", v.Name, v.Rule, v.Severity, v.Offset, v.Length)
		p.line("%s", v.Instruction)
		if v.Content != nil {
			p.line("%s", v.Content.Warning)
			p.block(v.Content.Body)
		}
	})
}
