package screen_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen"
)

// Proves MFW-3, CARD-1: what a server writes of itself into a prompt (the ids of
// objects, when it was compiled) changes no score.
func TestIdentifiersChangeNoScore(t *testing.T) {
	s := screener(t, screen.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	score := func(i int) memproxy.PerMille {
		hex := fmt.Sprintf("%016x%016x", rng.Uint64(), rng.Uint64())
		text := fmt.Sprintf("You are a helpful self-improving agent with advanced memory.\n<persona>\nI am brief.\n</persona>\n\n<memory_metadata>\n"+
			"- AGENT_ID: agent-%s-%s-%s-%s-%s\n- System prompt last recompiled: 2026-%02d-%02d %02d:%02d:%02d PM UTC+0000\n"+
			"- 0 previous messages between you and the user are stored in recall memory\n</memory_metadata>",
			hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:], 1+i%12, 1+i%28, 1+i%12, i%60, i*7%60)
		return s.Text(text, "", "").Score
	}
	want := score(0)
	for i := range 500 {
		must.Equal(t, score(i), want)
	}
}
