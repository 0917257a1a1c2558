package panel_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/assembly"
	"github.com/memproxy/memproxy/screen/likeness"
	"github.com/memproxy/memproxy/screen/panel"
)

// BenchmarkWrites screens ordinary writes of one session, each of which is kept:
// the same one again and again, or different ones; whole sentences, short facts that
// are put together with the session's earlier ones, and texts that are cut off in a word.
func BenchmarkWrites(b *testing.B) {
	const prose = "I moved to Lisbon in March and prefer the window seat on morning trains. "
	whole := strings.Repeat(prose, 6)
	cut := whole + "I mov"
	known := must.Get(likeness.New(likeness.Options{Exemplars: panel.Exemplars(), Harmless: panel.Harmless()}))(b)
	base := must.Get(screen.New(screen.Options{}))(b)
	for _, c := range []struct {
		name string
		text func(i int) string
	}{
		{"whole/same", func(int) string { return whole }},
		{"whole/different", func(i int) string { return fmt.Sprintf("In %d ", i) + whole }},
		{"fact/different", func(i int) string { return fmt.Sprintf("Prefers window seat number %d on morning trains", i) }},
		{"short/different", func(i int) string { return fmt.Sprintf("Likes seat %d", i) }},
		{"cut/same", func(int) string { return cut }},
		{"cut/different", func(i int) string { return fmt.Sprintf("%d ", i) + cut }},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := must.Get(panel.New(panel.Options{
				Base: base, Secrets: true, Synapse: true, Assembly: assembly.New(), Recipes: assembly.NewRecipes(), Likeness: known, Clock: time.Now,
			}))(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s := memproxy.Screening{
					Principal: memproxy.Principal{ID: "agent:dev", Tenant: "acme"}, Decision: fmt.Sprint(i),
					Operation: &memproxy.Operation{
						Kind: memproxy.Learn, Scope: memproxy.Scope{User: "ann", Agent: "dev"},
						Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: c.text(i), Layer: memproxy.Semantic}},
					},
				}
				must.Get(p.Screen(context.Background(), s))(b)
				p.RecordWrite(s)
			}
		})
	}
}
