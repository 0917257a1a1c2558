package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/screen/hunt"
)

// Hunt is a scan of the memories in a backend.
type Hunt struct {
	Backend config.Backend
	API     string // which Mem0 it is: "platform", "server", or "auto" to ask it
	Scopes  []memproxy.Scope
	Judge   hunt.Screener
	// Report receives the memories that would be held if they were written now, and
	// File, if set, is a file for it. Content includes their texts.
	Report   io.Writer
	File     string
	Content  bool
	State    string  // file for the position; "": none
	Rate     float64 // pages a second at most
	Progress memproxy.Progress
	Log      io.Writer // skipped memories and the summary, for people
}

// Walk runs the scan and reports its progress.
func (h Hunt) Walk(ctx context.Context) error {
	pager, kind, err := Store(ctx, h.Backend, h.API, h.Scopes)
	if err != nil {
		return err
	}
	done := func() error { return nil }
	if h.File != "" {
		before, err := hunt.LoadState(h.State)
		if err != nil {
			return err
		}
		f, err := hunt.OpenReport(h.File, before)
		if err != nil {
			return err
		}
		h.Report, done = f, func() error { return errors.Join(f.Sync(), f.Close()) }
	}
	state, err := hunt.Walk(ctx, pager, hunt.WalkOptions{
		Screen: h.Judge, Report: hunt.Report(h.Report, h.Content), Name: kind + " " + h.Backend.Name + " " + h.Backend.Upstream,
		StateFile: h.State, Rate: h.Rate, Progress: h.Progress, Skipped: func(i hunt.Item) {
			fmt.Fprintf(h.Log, "memproxy: %s %q, %s: not judged: too long, or not given\n", i.Kind, i.ID, i.Field)
		},
	})
	err = errors.Join(err, done())
	if state.Version == 0 { // it did not begin
		return err
	}
	state.Summary(h.Log)
	if err != nil && h.State != "" {
		fmt.Fprintln(h.Log, "memproxy: the walk is not finished; the same command goes on where it stopped")
	}
	return err
}

// Store is how a backend's store is read, by its own API and with its own
// credential, and the name of that API:
// "platform", "server", or "auto" to ask a Mem0 which it is.
func Store(ctx context.Context, b config.Backend, api string, scopes []memproxy.Scope) (hunt.Pager, string, error) {
	at := hunt.API{URL: b.Upstream}
	if c := credentialOf(b); c != nil {
		at.Header = http.Header{c.Header: {c.Value}}
	}
	trusted, err := upstreamTLS(b.TLS)
	if err != nil {
		return nil, "", err
	}
	if trusted != nil {
		at.Via = proxy.NewTransport(trusted)
	}
	if b.Kind == "letta" {
		p, err := hunt.Letta(at)
		return p, "letta", err
	}
	if api == "auto" {
		ctx, cancel := context.WithTimeout(ctx, probeTime)
		defer cancel()
		var err error
		if api, err = hunt.Mem0Kind(ctx, at); err != nil {
			return nil, "", err
		}
	}
	if api == "server" {
		p, err := hunt.Mem0Server(at, scopes...)
		return p, "mem0-server", err
	}
	if len(scopes) > 0 {
		return nil, "", errors.New("--scope is for a Mem0 server; the platform gives its whole project")
	}
	p, err := hunt.Mem0(at)
	return p, "mem0-platform", err
}

// probeTime bounds the question which Mem0 a backend is.
const probeTime = time.Minute

// credentialOf is how the backend's own credential is presented, or nil.
func credentialOf(b config.Backend) *face.Credential {
	key := b.Credential.Reveal()
	if key == "" {
		return nil
	}
	switch cmp.Or(b.CredentialAs, "token") {
	case "x-api-key":
		return &face.Credential{Header: "X-Api-Key", Value: key}
	case "bearer":
		return &face.Credential{Header: "Authorization", Value: "Bearer " + key}
	}
	return &face.Credential{Header: "Authorization", Value: "Token " + key}
}
