package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/memproxy/memproxy/face"
)

// ServerOptions configure a listener.
type ServerOptions struct {
	Handler http.Handler
	// TLS makes it an https listener. With ClientCAs and
	// VerifyClientCertIfGiven, callers can be identified by certificate.
	TLS *tls.Config
	// HeaderTimeout bounds reading a request's header. Default 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout is how long a request may let a reader of its body wait; what
	// it sends earns it time. Default DefaultBodyTimeout.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take nothing of what is written to
	// it, streams included. Default face.DefaultWriteTimeout.
	WriteTimeout time.Duration
	// Connections bounds the connections, and ConnectionsPeer those of one
	// address. Defaults face.DefaultConnections and three quarters of that.
	Connections, ConnectionsPeer int
	// IdleTimeout closes idle client connections. Default 120 s.
	IdleTimeout time.Duration
	// MaxHeader bounds a request's header in bytes. Default 64 KiB.
	MaxHeader int
	Log       *slog.Logger
}

// Serve serves on the listener until the returned function is called, which
// stops accepting and waits for what is in flight until its context ends.
// Failed receives the error if serving ends by itself.
func Serve(ln net.Listener, o ServerOptions) (stop func(context.Context) error, failed <-chan error) {
	if o.HeaderTimeout <= 0 {
		o.HeaderTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 120 * time.Second
	}
	if o.MaxHeader <= 0 {
		o.MaxHeader = 64 << 10
	}
	if o.BodyTimeout <= 0 {
		o.BodyTimeout = DefaultBodyTimeout
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = face.DefaultWriteTimeout
	}
	bounded, ok := ln.(*face.Listener) // whoever wants to count what it refuses makes it
	if !ok {
		bounded = face.Bound(ln, face.ListenOptions{WriteTimeout: o.WriteTimeout, Connections: o.Connections, ConnectionsPeer: o.ConnectionsPeer})
	}
	ln = bounded
	srv := &http.Server{
		Handler: pace(o.Handler, o.BodyTimeout, o.WriteTimeout), TLSConfig: o.TLS, ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout: o.IdleTimeout, MaxHeaderBytes: o.MaxHeader,
		// No WriteTimeout and no ReadTimeout: streams last as long as they last.
		// Bodies and each write have deadlines of their own.
		DisableGeneralOptionsHandler: true,
		ConnState:                    bounded.State,
	}
	if o.Log != nil {
		srv.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	}
	errs := make(chan error, 1)
	go func() {
		var err error
		if o.TLS != nil {
			err = srv.ServeTLS(ln, "", "")
		} else {
			err = srv.Serve(ln)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			errs <- err
		}
	}()
	return srv.Shutdown, errs
}
