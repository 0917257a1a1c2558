package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/wait"
)

// ServerOptions configure a listener.
type ServerOptions struct {
	Handler http.Handler
	// TLS makes it an https listener. With ClientCAs and
	// VerifyClientCertIfGiven, callers can be identified by certificate.
	TLS *tls.Config
	// BodyTimeout is how long the reader of a request's body may wait; received data
	// extends that. Default DefaultBodyTimeout.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may read nothing of its answer, streams
	// included. Default frontend.DefaultWriteTimeout.
	WriteTimeout time.Duration
	// Cut aborts requests in flight and those that outlive their connection. Nil: not
	// called.
	Cut func()
	Log *slog.Logger
}

// Bounds of every listener: the time and the size of a request's header, how long a
// connection may be idle, and how long requests that a stop has cut off may take to
// return.
const (
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	idleTimeout   = 120 * time.Second
	cutTime       = 3 * time.Second
)

// ErrCutOff reports that requests were still in flight at the end of a stop. Their
// connections were closed.
var ErrCutOff = errors.New("requests in flight were cut off")

// Serve serves on the listener until the returned function is called, which stops
// accepting and waits for requests in flight until its context ends. Those that
// remain are cut off (ErrCutOff), and waited for until their outcome is recorded.
// Failed receives the error if serving ends by itself.
func Serve(ln net.Listener, o ServerOptions) (stop func(context.Context) error, failed <-chan error) {
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), DefaultBodyTimeout)
	o.WriteTimeout = cmp.Or(max(o.WriteTimeout, 0), frontend.DefaultWriteTimeout)
	bounded := frontend.Bound(ln, frontend.ListenOptions{WriteTimeout: o.WriteTimeout})
	ln = bounded
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	flight := &inFlight{ServerOptions: o, accepted: bounded.Accepted}
	srv := &http.Server{
		Handler: flight, TLSConfig: o.TLS, ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		// No WriteTimeout and no ReadTimeout, because streams may last for any time.
		// Bodies and each write have deadlines of their own.
		DisableGeneralOptionsHandler: true,
		ConnState:                    bounded.State,
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), // errors of clients' connections
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
	return func(ctx context.Context) error {
		err := srv.Shutdown(ctx)
		if err != nil && ctx.Err() != nil {
			if o.Cut != nil {
				o.Cut()
			}
			if err = srv.Close(); errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			err = errors.Join(ErrCutOff, err)
		}
		cut, cancel := context.WithTimeout(context.Background(), cutTime)
		defer cancel()
		if wait.For(cut, flight.Wait) != nil {
			err = errors.Join(err, errors.New("requests that were cut off have not returned"))
		}
		return err
	}, errs
}

// inFlight counts the requests in handlers. The server does not wait for those whose
// connections it has closed; they still write to stores that must stay open.
type inFlight struct {
	ServerOptions
	sync.WaitGroup
	accepted func(remote, caller string) // receives the callers that are accepted on a connection
}

// ServeHTTP bounds a request in time. It logs a panic and aborts the connection.
func (f *inFlight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.Add(1)
	defer f.Done()
	defer func() {
		switch v := recover(); v {
		case nil:
			return
		case http.ErrAbortHandler:
		default:
			f.Log.ErrorContext(r.Context(), "panic", "value", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
		panic(http.ErrAbortHandler)
	}()
	aw, r := paced(w, r, f.BodyTimeout, f.WriteTimeout)
	aw.accepted = f.accepted
	defer aw.end()
	f.Handler.ServeHTTP(aw, r)
}
