// Package fleet distributes rules to sidecars: signed releases, the control plane that
// offers them, and previews of what a release would change.
package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/xds"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/group"
	"github.com/memproxy/memproxy/internal/tlsfile"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/telemetry"
	"github.com/memproxy/memproxy/upkeep"
)

// Options are the settings of a control plane that are not in its configuration.
type Options struct {
	Log    io.Writer // output of the log
	Getenv func(string) string
}

// Run serves until ctx ends or a listener fails.
func Run(ctx context.Context, cfg *config.ControlPlane, opt Options) error {
	p, err := Open(cfg, opt)
	if err != nil {
		return err
	}
	if err := p.Start(ctx); err != nil {
		return err
	}
	return p.group.Run(ctx)
}

// Plane is a running control plane.
type Plane struct {
	group  *group.Group
	cfg    *config.ControlPlane
	log    *slog.Logger
	server *xds.Server
	tls    *tls.Config
	admin  http.Handler
	counts *prometheus.Registry

	FleetAddr, AdminAddr string // actual addresses, once started
}

// Open builds a control plane from its configuration. It does not listen yet.
func Open(cfg *config.ControlPlane, opt Options) (*Plane, error) {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "warn": slog.LevelWarn, "error": slog.LevelError}[cfg.Log.Level]
	log := telemetry.NewLogger(opt.Log, cfg.Log.Format, level)
	store, err := xds.NewDir(cfg.Releases, cfg.Progress, config.PublicKeys(cfg.Keys))
	if err != nil {
		return nil, fmt.Errorf("releases or progress: %w", err)
	}
	server := xds.Options{
		Fleet: cfg.Fleet, Store: store, Rules: rulesOf(cfg.Sidecars), Plan: planOf(cfg.Rollout),
		Clock: time.Now, Log: log, Report: cfg.Report.Std(),
	}
	if cfg.Replay.Decisions != "" {
		if server.Warn, err = warner(cfg.Replay, opt.Getenv, log); err != nil {
			return nil, err
		}
	}
	p := &Plane{cfg: cfg, log: log, group: group.New(context.Background(), group.Options{Stages: stages, Loops: stageLoops, Log: log})}
	if p.server, err = xds.New(server); err != nil {
		return nil, err
	}
	cert, err := tlsfile.Open(cfg.TLS.Cert, cfg.TLS.Key, log)
	if err != nil {
		return nil, fmt.Errorf("tls.cert or tls.key: %w", err)
	}
	clients, err := tlsfile.Roots(cfg.TLS.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("tls.client_ca: %w", err)
	}
	p.tls = &tls.Config{GetCertificate: cert.Server, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13}
	p.counts = prometheus.NewRegistry()
	p.counts.MustRegister(fleetMetrics{p.server})
	p.admin = p.adminHandler(promhttp.HandlerFor(p.counts, promhttp.HandlerOpts{}))
	return p, nil
}

func rulesOf(list []config.SidecarRule) []xds.Rule {
	var out []xds.Rule
	for _, r := range list {
		labels := make(map[string][]string, len(r.Labels))
		for k, names := range r.Labels {
			labels[k] = names
		}
		out = append(out, xds.Rule{SPIFFE: r.SPIFFE, CommonName: r.CommonName, Tenant: r.Tenant, Labels: labels})
	}
	return out
}

func planOf(r config.Rollout) xds.Plan {
	p := xds.Plan{Refused: *r.Refused, Errors: *r.Errors, Decisions: uint64(*r.Decisions), Rejections: int(*r.Rejections)}
	for _, s := range r.Stages {
		p.Stages = append(p.Stages, xds.Stage{Percent: s.Percent, Hold: s.Hold.Std()})
	}
	return p
}

// adminHandler serves the fleet's state, read-only.
func (p *Plane) adminHandler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	show := func(path string, state func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			_ = enc.Encode(state()) // the client may have disconnected
		})
	}
	show("/fleet", func() any { return p.server.Status() })
	show("/fleet/sidecars", func() any { return p.server.Sidecars() })
	return proxy.NewAdmin(proxy.AdminOptions{Ready: p.ready, Metrics: metrics, Fleet: mux, Hosts: p.cfg.Admin.Hosts})
}

func (p *Plane) ready() []proxy.Check {
	st := p.server.Status()
	c := proxy.Check{Name: "releases", OK: true, Detail: fmt.Sprintf("%d release(s), %d sidecar(s)", len(st.Releases), st.Connected)}
	switch {
	case st.StoreError != "":
		c.Degraded, c.Detail = true, "the directory is unavailable; the known releases are still offered: "+st.StoreError
	case len(st.Faults) > 0:
		c.Degraded, c.Detail = true, fmt.Sprintf("%d release(s) cannot be offered, first: %s", len(st.Faults), st.Faults[0])
	}
	return []proxy.Check{c}
}

// Start reads the releases, listens, and serves until Close.
func (p *Plane) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			_ = p.Close(ctx) // the first error is returned
		}
	}()
	if err := p.server.Refresh(); err != nil {
		return err
	}
	fleet, err := net.Listen("tcp", p.cfg.Listen)
	if err != nil {
		return err
	}
	stop, failed, err := p.server.Serve(frontend.CountTurnedAway(p.counts, "fleet", xds.Limit(fleet)), p.tls)
	if err != nil {
		fleet.Close()
		return err
	}
	p.FleetAddr = fleet.Addr().String()
	p.group.Serve(stageListeners, "fleet", stop, failed)
	admin, err := net.Listen("tcp", p.cfg.Admin.Listen)
	if err != nil {
		return err
	}
	stop, failed = proxy.Serve(frontend.CountTurnedAway(p.counts, "admin", frontend.Limit(admin, frontend.ListenOptions{})), proxy.ServerOptions{Handler: p.admin, Log: p.log})
	p.AdminAddr = admin.Addr().String()
	p.group.Serve(stageListeners, "admin", stop, failed)
	heard := upkeep.Hangups()
	p.group.Tick("releases pace", p.cfg.Poll.Std(), func(ctx context.Context, tick <-chan time.Time) {
		upkeep.Rereads(ctx, tick, heard, p.cfg.Releases, p.cfg.Progress, p.server.Reread)
	})
	p.group.Go("releases", p.server.Run)
	p.log.Info("listening", "name", "fleet", "address", p.FleetAddr)
	p.log.Info("listening", "name", "admin", "address", p.AdminAddr)
	return nil
}

// The stages of a stop. The timeout of the loops is long enough to write progress to a
// slow disk.
const (
	stageListeners = iota
	stageLoops
)

var stages = []group.Stage{
	stageListeners: {Name: "listeners", Drain: true},
	stageLoops:     {Name: "loops", Time: 5 * time.Second},
}

// Close stops everything. ctx bounds the drain of requests in flight.
func (p *Plane) Close(ctx context.Context) error { return p.group.Close(ctx) }

// Limits of a status request.
const (
	statusTimeout = 10 * time.Second
	statusAnswer  = 64 << 20 // in bytes; about ten thousand sidecars
)

// Status is the state of a fleet.
type Status struct {
	xds.Status
	Sidecars []xds.SidecarStatus `json:"sidecars"`
}

// Healthy reports whether every release can be offered and no sidecar refuses its assigned
// release.
func (s *Status) Healthy() bool {
	return s.StoreError == "" && len(s.Faults) == 0 && !slices.ContainsFunc(s.Sidecars, func(c xds.SidecarStatus) bool {
		return c.Rejected != nil && c.Rejected.Release == c.Assigned && c.Running != c.Assigned
	})
}

// FetchStatus requests the status of a control plane from its admin listener.
func FetchStatus(ctx context.Context, base string) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for path, into := range map[string]any{"/fleet": &s.Status, "/fleet/sidecars": &s.Sidecars} {
		if err := getJSON(ctx, strings.TrimSuffix(base, "/")+path, into); err != nil {
			return s, err
		}
	}
	return s, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no control plane answers; --url is its admin.listen: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, statusAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// fleetMetrics collects the control plane's metrics from its state.
type fleetMetrics struct{ server *xds.Server }

var (
	fleetStoreUp   = prometheus.NewDesc("memproxy_fleet_store_up", "1 while the directory of releases can be read.", nil, nil)
	fleetFaults    = prometheus.NewDesc("memproxy_fleet_release_faults", "Releases that cannot be offered.", nil, nil)
	fleetSidecars  = prometheus.NewDesc("memproxy_fleet_sidecars", "Connected sidecars; behind: not on their release; unassigned: no release is for them.", []string{"state"}, nil)
	fleetRelease   = prometheus.NewDesc("memproxy_fleet_release_info", "1, with what a release is: current, rolling, stopped or past.", []string{"release", "channel", "state"}, nil)
	fleetOn        = prometheus.NewDesc("memproxy_fleet_release_sidecars", "Sidecars by release: assigned, running, refused.", []string{"release", "state"}, nil)
	fleetDecisions = prometheus.NewDesc("memproxy_fleet_release_decisions_total", "Decisions that sidecars reported, by release: all, refused, failed.", []string{"release", "result"}, nil)
)

// Describe implements prometheus.Collector.
func (m fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range [...]*prometheus.Desc{fleetStoreUp, fleetFaults, fleetSidecars, fleetRelease, fleetOn, fleetDecisions} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m fleetMetrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	decisions := func(n uint64, release, result string) {
		out <- prometheus.MustNewConstMetric(fleetDecisions, prometheus.CounterValue, float64(n), release, result)
	}
	st := m.server.Status()
	up := 1.0
	if st.StoreError != "" {
		up = 0
	}
	gauge(fleetStoreUp, up)
	gauge(fleetFaults, float64(len(st.Faults)))
	gauge(fleetSidecars, float64(st.Connected), "connected")
	gauge(fleetSidecars, float64(st.Behind), "behind")
	gauge(fleetSidecars, float64(st.Unassigned), "unassigned")
	for _, r := range st.Releases {
		gauge(fleetRelease, 1, r.Name, r.Channel, r.State)
		gauge(fleetOn, float64(r.Assigned), r.Name, "assigned")
		gauge(fleetOn, float64(r.Running), r.Name, "running")
		gauge(fleetOn, float64(r.Refused), r.Name, "refused")
		decisions(r.Counts.Decisions, r.Name, "all")
		decisions(r.Counts.Refused, r.Name, "refused")
		decisions(r.Counts.Errors, r.Name, "failed")
	}
}
