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

// runBackend answers adds the way a self-hosted Mem0 server does, as fast as
// net/http can, so that the proxies are what is measured.
func runBackend(addr string) {
	var n atomic.Uint64
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		fmt.Fprintf(w, `{"results":[{"id":"00000000-0000-4000-8000-%012x","memory":"moved to Lisbon","event":"ADD"}]}`, n.Add(1))
	})
	exit(http.ListenAndServe(addr, h))
}

// runBare is what a team would write in an afternoon: a reverse proxy and
// nothing else.
func runBare(addr, upstream string) {
	u, err := url.Parse(upstream)
	exit(err)
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns, t.IdleConnTimeout = 512, 512, 4*time.Second
	h := &httputil.ReverseProxy{Transport: t, Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }}
	exit(http.ListenAndServe(addr, h))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
