package contract

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
)

// Answer is what came back for a case.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Decision is the verdict and the id of the decision, as the answer's header
// has them, or "".
func (a *Answer) Decision() (verdict, id string) {
	verdict, rest, _ := strings.Cut(a.Header.Get("X-Memproxy-Decision"), ";")
	_, id, _ = strings.Cut(rest, "id=")
	id, _, _ = strings.Cut(id, ";")
	return verdict, id
}

// Matrix is one run of the matrix of cases.
type Matrix struct {
	Format *Format
	World  *World
	Routes []Route
	// Base is the proxy's address; AltBase, if set, a second way to the same
	// backend that must answer alike, which is asked where AltCases says so, or
	// always.
	Base, AltBase string
	AltCases      func(*Case, *Answer) bool
	// TakeChanges, if set, tells what changes reached the backend since it was last
	// asked; Tap, if set, stands before the backend and tells it of each case.
	TakeChanges func() []string
	Tap         *Tap
	// Workers play at once. Default 1, which TakeChanges needs.
	Workers int
	// Check, if set, is to find out whether the victim has what it had: after
	// CheckEvery changes that callers have made who may not see it, and after all of
	// those callers' cases. Nothing is played meanwhile.
	Check      func(after string)
	CheckEvery int
	// Share plays one case in so many, and all that name another tenant's object
	// in the path. Which cases those are, Seed says: of seeds 0 to Share-1 each
	// case is played for one. 0 and 1 play all.
	Share, Seed uint32
	// Played, if set, is given each case with its answer, without what differs from
	// run to run; Also's answers follow Base's.
	Played func(c *Case, plain string)
	// Fail reports what is wrong with a case.
	Fail func(format string, args ...any)

	// Decisions are the ids of the decisions that the answers named.
	Decisions []string
	// Cases were played. The Tap saw something of so many as Forwarded says, and
	// Arrived requests in all, memproxy's own included.
	Cases, Forwarded, Arrived int

	client  http.Client
	playing sync.RWMutex // held alone to look at what is there
	mu      sync.Mutex
	changes int
	texts   map[text]bool
	traces  atomic.Int64
}

// Run plays the cases: first those of callers who may not see the victim, so
// that all of it is there when they try, and of each kind of caller those that
// delete at last. Its error is of the matrix itself.
func (p *Matrix) Run() error {
	p.texts = map[text]bool{}
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.client.Transport = &http.Transport{MaxIdleConnsPerHost: max(1, p.Workers)}
	for _, sees := range []bool{false, true} {
		for _, deletes := range []bool{false, true} {
			err := p.pass(func(method string, c *Caller) bool {
				return c.MaySee(p.World.Owners[0]) == sees && (method == http.MethodDelete) == deletes
			})
			if err != nil {
				return err
			}
		}
		if !sees && p.Check != nil {
			p.Check("all cases of callers who may not see it")
		}
	}
	return nil
}

// pass plays the cases of some methods and callers.
func (p *Matrix) pass(wanted func(method string, c *Caller) bool) error {
	groups := make(chan []*Case)
	failed := make(chan error, max(1, p.Workers))
	var workers sync.WaitGroup
	for range max(1, p.Workers) {
		workers.Go(func() {
			for group := range groups {
				if err := p.group(group); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	err := p.deal(wanted, groups, failed)
	close(groups)
	workers.Wait()
	close(failed)
	for one := range failed {
		err = errors.Join(err, one)
	}
	return err
}

// deal hands out the cases, those of one place and caller together.
func (p *Matrix) deal(wanted func(string, *Caller) bool, groups chan<- []*Case, failed <-chan error) error {
	var group []*Case
	send := func() error {
		if group == nil {
			return nil
		}
		select {
		case groups <- group:
			group = nil
			return nil
		case err := <-failed:
			return err
		}
	}
	for c, err := range p.Format.cases(p.World, p.Routes, wanted, p.plays) {
		if err != nil {
			return err
		}
		if len(group) > 0 && !group[0].beside(c) {
			if err := send(); err != nil {
				return err
			}
		}
		group = append(group, c)
	}
	return send()
}

// beside reports whether two cases differ in their class only.
func (c *Case) beside(d *Case) bool {
	return c.Route.ID == d.Route.ID && c.Route.Path == d.Route.Path && c.Method == d.Method && c.Place == d.Place && c.Caller == d.Caller
}

func (p *Matrix) plays(c *Case) bool {
	if p.Share <= 1 {
		return true
	}
	if c.Class == Victims && c.Caller == p.World.Callers[0] && strings.HasPrefix(c.Place, "path:") {
		return true
	}
	if c.Class == Wildcard && c.Caller == p.World.Callers[0] && c.Route.Kind == memproxy.Recall && strings.HasPrefix(c.Place, "body:") {
		return true // what names nobody in particular
	}
	h := fnv.New32a()
	// Ids differ from server to server; what the case is of does not.
	_, _ = io.WriteString(h, c.Route.ID+" "+c.Method+" "+c.Place+" "+string(c.Class)+" "+c.Caller.Name) // never fails
	return h.Sum32()%p.Share == p.Seed%p.Share
}

// group plays cases that differ in their class only. What is answered of the
// unknown is asked once for all of them.
func (p *Matrix) group(cases []*Case) error {
	var missing *Answer
	if i := slices.IndexFunc(cases, func(c *Case) bool { return c.Class == Unknown }); i > 0 {
		cases[0], cases[i] = cases[i], cases[0]
	}
	for _, c := range cases {
		got, err := p.one(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		if c.Class == Unknown {
			missing = got
		}
		if !p.hidden(c) {
			continue
		}
		if missing == nil {
			if missing, err = p.unknown(c); err != nil {
				return fmt.Errorf("%s: %w", c, err)
			}
		}
		if p.plain(missing) == p.plain(got) {
			continue
		}
		if err := p.reportDistinguishable(c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// one plays a case.
func (p *Matrix) one(c *Case) (*Answer, error) {
	p.wrote(c)
	p.playing.RLock()
	got, arrived, err := p.ask(p.Base, c)
	p.playing.RUnlock()
	if err != nil {
		return nil, err
	}
	p.judge(c, got, arrived)
	p.played(c, got)
	verdict, id := got.Decision()
	if id == "" && verdict == "" && !c.Route.Public {
		p.fail("%s: %d, and no decision is named", c, got.Status)
	}
	p.count(c, id, arrived)
	if p.AltBase == "" || p.AltCases != nil && !p.AltCases(c, got) {
		return got, nil
	}
	p.playing.RLock()
	also, arrived, err := p.ask(p.AltBase, c)
	p.playing.RUnlock()
	if err != nil {
		return nil, err
	}
	p.judge(c, also, arrived)
	p.played(c, also)
	// Runs of agents take the HTTP way; the processor says so.
	if is, _ := also.Decision(); (is != verdict || also.Status != got.Status) && !strings.Contains(also.Body, "run.ungated") {
		p.fail("%s: %d %s here: %s, %d %s there: %s", c, got.Status, verdict, got.Body, also.Status, is, also.Body)
	}
	return got, nil
}

// unknown asks for what does not exist in place of what a case names.
func (p *Matrix) unknown(c *Case) (*Answer, error) {
	other := *c
	other.Class = Unknown
	twin, err := p.Format.request(p.World, &other)
	if err != nil {
		return nil, err
	}
	a, _, err := p.ask(p.Base, twin)
	if p.TakeChanges != nil {
		p.TakeChanges()
	}
	return a, err
}

// reportDistinguishable reports a case that is told apart from what does not exist, if it
// is so too when nothing else goes on, every time: what an engine gives in one order now
// and in another then tells nobody anything.
func (p *Matrix) reportDistinguishable(c *Case) error {
	p.playing.Lock()
	defer p.playing.Unlock()
	var is, was string
	for range 5 {
		got, _, err := p.ask(p.Base, c)
		if err != nil {
			return err
		}
		missing, err := p.unknown(c)
		if err != nil {
			return err
		}
		if is, was = p.plain(got), p.plain(missing); is == was || alike(missing, got) {
			return nil
		}
	}
	p.fail("%s: told apart from what does not exist:\n\t%.2000s\n\t%.2000s", c, is, was)
	return nil
}

// alike reports whether two answers show as many memories with the same texts
// and owners: among equal ones an engine tells now these first and now those.
func alike(a, b *Answer) bool {
	of := func(x *Answer) []string {
		all := told.FindAllString(x.Body, -1)
		slices.Sort(all)
		return all
	}
	one, two := of(a), of(b)
	return a.Status == b.Status && len(one) > 0 && slices.Equal(one, two)
}

var told = regexp.MustCompile(`"(?:memory|user_id|agent_id|app_id|run_id|text)":(?:"[^"]*"|null)`)

// ask sends a case, and tells what reached the backend of it.
func (p *Matrix) ask(base string, c *Case) (*Answer, []Arrival, error) {
	c.trace = fmt.Sprintf("%032x", p.traces.Add(1))
	header := append(slices.Clone(c.Header), "Traceparent", "00-"+c.trace+"-00000000000000aa-01")
	a, err := send(&p.client, base, c.Method, c.Target, c.Body, header)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c, err)
	}
	if p.Tap == nil {
		return a, nil, nil
	}
	return a, p.Tap.Take(c.trace), nil
}

func (p *Matrix) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Fail(format, args...)
}

func (p *Matrix) played(c *Case, a *Answer) {
	if p.Played == nil {
		return
	}
	plain := p.plain(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Played(c, plain)
}

// count notes a case, and has the victim looked at now and then.
func (p *Matrix) count(c *Case, decision string, arrived []Arrival) {
	check := false
	p.mu.Lock()
	p.Cases++
	p.Arrived += len(arrived)
	if len(arrived) > 0 {
		p.Forwarded++
	}
	if decision != "" {
		p.Decisions = append(p.Decisions, decision)
	}
	if p.Check != nil && !c.Caller.MaySee(p.World.Owners[0]) && slices.ContainsFunc(arrived, func(a Arrival) bool { return a.Changes() }) {
		p.changes++
		check = p.CheckEvery > 0 && p.changes%p.CheckEvery == 0
	}
	p.mu.Unlock()
	if check {
		p.playing.Lock()
		defer p.playing.Unlock()
		p.Check(c.String())
	}
}

// How long an answer may take to begin, and to end once it has begun. Turns of one agent wait
// for each other, with nothing sent meanwhile; a stream that is open for ever costs all of its
// time.
const (
	headTime = 10 * time.Minute
	bodyTime = time.Minute
)

// Send sends one request, with headers as pairs of names and values.
func Send(base, method, target, body string, header ...string) (*Answer, error) {
	return send(http.DefaultClient, base, method, target, body, header)
}

func send(client *http.Client, base, method, target, body string, header []string) (*Answer, error) {
	q, err := http.NewRequest(method, base+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	ctx, cancel := context.WithCancelCause(q.Context())
	defer cancel(nil)
	over := time.AfterFunc(headTime, func() { cancel(context.DeadlineExceeded) })
	defer over.Stop()
	resp, err := client.Do(q.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	over.Reset(bodyTime)
	b, err := io.ReadAll(resp.Body)
	endless := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") && errors.Is(err, context.DeadlineExceeded)
	if err != nil && !endless { // Letta sends keep-alives on the stream of a run without events for ever
		return nil, err
	}
	return &Answer{resp.StatusCode, resp.Header, string(b)}, nil
}
