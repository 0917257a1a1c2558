package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/internal/cli"
)

// extproc runs the Envoy face: the external processor and, beside it, the HTTP
// listeners of the configuration, to which Envoy sends what only they can gate.
func (in *Invocation) extproc() *cobra.Command {
	var path *string
	var f app.Envoy
	c := cli.Leaf("extproc", "run the Envoy face, with the HTTP one beside it", "memproxy extproc --config memproxy.yaml --listen unix:/run/memproxy.sock",
		func(ctx context.Context) int { return in.serving(ctx, *path, &f) })
	path = configFlag(c, "memproxy.yaml", "configuration `file`")
	fs := c.Flags()
	fs.StringVar(&f.Listen, "listen", "127.0.0.1:9902", "address of the processor: host:port, or unix:PATH")
	fs.StringVar(&f.Cert, "cert", "", "certificate chain of the processor, PEM")
	fs.StringVar(&f.Key, "key", "", "its private key, PEM")
	fs.StringVar(&f.ClientCA, "client-ca", "", "roots of Envoy's client certificate, PEM; it must then have one")
	fs.BoolVar(&f.Authorize, "authz", false, "serve ext_authz as well: decisions only")
	fs.BoolVar(&f.UnfilteredReads, "authz-unfiltered-reads", false, "let ext_authz admit reads, whose answers it cannot filter")
	fs.DurationVar(&f.Grace, "grace", 2*time.Second, "at a stop, how long health says so before connections close")
	return c
}
