package baseline

import (
	"math"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

const (
	dims       = 128 // dimensions of the bag of words
	maxDomains = 64  // the least recently seen is evicted first

	// decay is the weight that remains of what was learnt, per text: a window of about
	// the last hundred texts.
	decay     = 0.99
	hourDecay = 0.98 // the same per hour: about the last two days

	// A topic is unusual if its likeness is below farLikeness and more than farSpread
	// standard deviations below the mean.
	farLikeness = 0.10
	farSpread   = 3.0
	minWords    = 5 // a shorter text has no topic

	// usualShare is the highest share of instructions of a profile that has none, and
	// suddenShare the lowest share of a text that deviates from it.
	usualShare  = 0.15
	suddenShare = 0.50
)

// profile is the state of one user. Its fields are those of a snapshot.
type profile struct {
	First   time.Time `json:"first"`
	Writes  int64     `json:"writes"`
	Domains []uint64  `json:"domains,omitempty"` // hashes, last seen last
	// Centroid is the decaying sum of the texts' bags of words; empty if no text was long
	// enough.
	Centroid []float32 `json:"centroid,omitempty"`
	// Likeness is the cosine similarity of texts to the centroid, Share the share of
	// instructions in texts.
	Likeness gauge `json:"likeness"`
	Share    gauge `json:"share"`
	// Hour is the current hour in hours since 1970, Count the number of texts in it, and
	// Hourly the number of texts in earlier hours.
	Hour   int64 `json:"hour"`
	Count  int64 `json:"count"`
	Hourly gauge `json:"hourly"`
}

type gauge struct {
	Weight   float64 `json:"weight"`
	Mean     float64 `json:"mean"`
	Variance float64 `json:"variance"`
}

func (g *gauge) add(x, decay float64) {
	g.Weight = g.Weight*decay + 1
	d := x - g.Mean
	step := d / g.Weight
	g.Mean += step
	g.Variance = max(0, g.Variance*(1-1/g.Weight)+d*(x-g.Mean)/g.Weight)
}

func (p *profile) learnt(o Options, now time.Time) bool {
	return p.Writes >= int64(o.LearnWrites) || p.Writes >= fewest && now.Sub(p.First) >= learnFor
}

// compare returns the deviations of a text from the profile.
func (p *profile) compare(item int, text string) []memproxy.Finding {
	text = text[:min(len(text), maxText)]
	var out []memproxy.Finding
	found := func(rule, severity string, start, end int, score float64) {
		perMille := memproxy.PerMille(math.Round(1000 * score))
		out = append(out, memproxy.Finding{Rule: rule, Severity: severity, Item: item, Start: start, End: end, Score: perMille})
	}
	var seen []uint64
	for _, d := range domains(text) {
		if slices.Contains(p.Domains, d.hash) || slices.Contains(seen, d.hash) || len(seen) == maxDomainFindings {
			continue
		}
		seen = append(seen, d.hash)
		found(RuleDomain, "low", d.start, d.end, 0.3)
	}
	t := read(text)
	if like, ok := p.like(t); ok && p.Likeness.Weight >= fewest {
		if like < farLikeness && like < p.Likeness.Mean-farSpread*math.Sqrt(p.Likeness.Variance) {
			found(RuleTopic, "low", 0, len(text), 0.3*(1-like))
		}
	}
	if share := t.share(); share >= suddenShare && p.Share.Weight >= fewest && p.Share.Mean <= usualShare {
		found(RuleInstructions, "medium", t.first, t.last, 0.3+0.3*share)
	}
	return out
}

// like returns the cosine similarity of a text and the profile, from 0 to 1. It returns
// false if either has too few words.
func (p *profile) like(t features) (float64, bool) {
	if t.words < minWords || len(p.Centroid) == 0 {
		return 0, false
	}
	var ab, aa, bb float64
	for i, c := range p.Centroid {
		a, b := float64(c), float64(t.bag[i])
		ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
	}
	if aa == 0 || bb == 0 {
		return 0, false
	}
	return max(0, ab/math.Sqrt(aa*bb)), true
}

// rate compares the number of texts in this hour, including n more, with that of other
// hours. The bound is four standard deviations (at least those of a Poisson process)
// above the mean, and at least six.
func (p *profile) rate(n int, now time.Time) (memproxy.Finding, bool) {
	q := *p // time may have passed since the last write
	q.tick(now)
	if q.Hourly.Weight < 2 {
		return memproxy.Finding{}, false
	}
	bound := max(6, q.Hourly.Mean+4*math.Sqrt(max(q.Hourly.Variance, q.Hourly.Mean)))
	count := float64(q.Count + int64(n))
	if count <= bound {
		return memproxy.Finding{}, false
	}
	f := memproxy.Finding{Rule: RuleRate, Severity: "low", Score: 200}
	if count > 2*bound {
		f.Severity, f.Score = "medium", 400
	}
	return f, true
}

const maxIdle = 200 // bounds the empty hours that are counted; more change nothing

// tick closes the hours that have ended.
func (p *profile) tick(now time.Time) {
	hour := now.Unix() / 3600
	if p.Hour == 0 {
		p.Hour = hour
	}
	if hour <= p.Hour {
		return // the same hour, or a clock that went backwards
	}
	p.Hourly.add(float64(p.Count), hourDecay)
	for range min(hour-p.Hour-1, maxIdle) {
		p.Hourly.add(0, hourDecay)
	}
	p.Hour, p.Count = hour, 0
}

// learn adds one text.
func (p *profile) learn(text string, now time.Time) {
	text = text[:min(len(text), maxText)]
	p.tick(now)
	p.Count++
	p.Writes++
	for _, d := range domains(text) {
		if at := slices.Index(p.Domains, d.hash); at >= 0 {
			p.Domains = slices.Delete(p.Domains, at, at+1)
		} else if len(p.Domains) == maxDomains {
			p.Domains = slices.Delete(p.Domains, 0, 1)
		}
		p.Domains = append(p.Domains, d.hash)
	}
	t := read(text)
	p.Share.add(t.share(), decay)
	if t.words < minWords {
		return
	}
	if like, ok := p.like(t); ok {
		p.Likeness.add(like, decay)
	}
	if len(p.Centroid) == 0 {
		p.Centroid = make([]float32, dims)
	}
	for i := range p.Centroid {
		p.Centroid[i] = p.Centroid[i]*decay + t.bag[i]
	}
}
