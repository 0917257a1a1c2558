package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

// addBackend answers adds the way a self-hosted Mem0 server does, as fast as
// net/http can, so that the proxies are what is measured.
func addBackend() http.Handler {
	var n atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		fmt.Fprintf(w, `{"results":[{"id":"00000000-0000-4000-8000-%012x","memory":"moved to Lisbon","event":"ADD"}]}`, n.Add(1))
	})
}

// bare is what a team would write in an afternoon: a reverse proxy and nothing
// else.
func bare(upstream string) http.Handler {
	u, err := url.Parse(upstream)
	exit(err)
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns, t.IdleConnTimeout = 512, 512, 4*time.Second
	return &httputil.ReverseProxy{Transport: t, Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
