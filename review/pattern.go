package review

import (
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
func memoryPattern(c *call) (PatternView, error) {
	k, tenant, err := c.memory()
	if err != nil {
		return PatternView{}, err
	}
	records, err := c.api.opt.Store.Lookup(c.ctx(), k)
	if err != nil {
		return PatternView{}, err
	}
	st := records[k].Status
	if st.State != memproxy.StateFlagged || st.Text == "" {
		return PatternView{}, notFound()
	}
	versions, err := c.api.opt.Store.History(c.ctx(), k, 0, maxHistory)
	if err != nil {
		return PatternView{}, err
	}
	for _, v := range versions {
		if v.SHA256 != st.Text {
			continue
		}
		v, err := c.api.opt.Store.Version(c.ctx(), k, v.Number)
		if err != nil {
			return PatternView{}, err
		}
		subject := fmt.Sprintf("pattern/%s/%s/%s/%s", k.Backend, k.Kind, k.ID, st.Text)
		return c.pattern(v.Text, st.Findings, subject, func() error { return c.record(tenant, k.Backend, v.Decision, k.ID) })
	}
	return PatternView{}, notFound()
}

// holdPattern shows what a placeholder of a held write's text stands for.
func holdPattern(c *call) (PatternView, error) {
	h, err := c.hold()
	if err != nil {
		return PatternView{}, err
	}
	_, content, err := c.api.opt.Store.HoldContent(c.ctx(), h.ID)
	if err != nil {
		return PatternView{}, err
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
	return PatternView{}, notFound()
}

// pattern shows one span of a text: where it is and what was found there, and
// its words to who may see them, confirmed and on record.
func (c *call) pattern(text string, findings []memproxy.Finding, subject string, record func() error) (PatternView, error) {
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
	return PatternView{}, notFound()
}
