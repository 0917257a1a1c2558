package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
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
	// TLS makes it an https listener. With ClientCAs and VerifyClientCertIfGiven, callers
	// can be identified by their certificates.
	TLS *tls.Config
	// BodyTimeout is how long one read of a request's body may wait; received data
	// extends the deadline. The default is DefaultBodyTimeout.
	BodyTimeout time.Duration
	// Cut, if not nil, aborts requests in flight and those that outlive their connection.
	Cut func()
	Log *slog.Logger
}

// Limits of every listener: the time and the size of a request's header, how long a
// connection may be idle, and how long requests that a stop has cut off may take to
// be answered and to return.
const (
	headerTimeout = 10 * time.Second
	maxHeader     = 64 << 10
	idleTimeout   = 120 * time.Second
	answerTime    = 2 * time.Second
	cutTime       = 3 * time.Second
)

// Serve serves on the listener until stop is called. stop accepts no more connections and
// waits for requests in flight until its context ends. It then cuts off the remaining
// ones, waits until they are answered and their outcome is recorded, and returns an error.
// failed receives the error if serving ends by itself.
func Serve(ln *frontend.Listener, o ServerOptions) (stop func(context.Context) error, failed <-chan error) {
	o.BodyTimeout = cmp.Or(max(o.BodyTimeout, 0), DefaultBodyTimeout)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	flight := &inFlight{ServerOptions: o, stall: ln.WriteTimeout}
	srv := &http.Server{
		Handler: flight, TLSConfig: o.TLS, ReadHeaderTimeout: headerTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		// There is no WriteTimeout and no ReadTimeout, because streams may last for any
		// time. Bodies and each write have their own deadlines.
		DisableGeneralOptionsHandler: true,
		ConnState:                    frontend.State,
		ConnContext:                  frontend.ConnContext,
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
		cut, cancel := context.WithTimeout(context.Background(), cutTime)
		defer cancel()
		if err != nil && ctx.Err() != nil {
			if o.Cut != nil {
				o.Cut()
				answer, cancel := context.WithTimeout(cut, answerTime)
				_ = srv.Shutdown(answer) // so that callers get an answer, and do not repeat a write
				cancel()
			}
			if err = srv.Close(); errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			err = errors.Join(errors.New("requests in flight were aborted"), err)
		}
		if wait.For(cut, flight.Wait) != nil {
			err = errors.Join(err, errors.New("aborted requests have not returned"))
		}
		return err
	}, errs
}

// inFlight counts the requests in handlers. The server does not wait for requests whose
// connections it has closed, but they still write to stores, which must stay open.
type inFlight struct {
	ServerOptions
	stall time.Duration // how long a client may leave its answer unread, streams included
	sync.WaitGroup
}

// ServeHTTP sets the deadlines of a request. It logs a panic and aborts the connection.
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
	aw, r := paced(w, r, f.BodyTimeout, f.stall)
	defer aw.end()
	f.Handler.ServeHTTP(aw, r)
}
