package main

import (
	"io"
	"net"
	"net/http"
)

// benchKeyHash is the SHA-256 of "m0sk_bench".
const benchKeyHash = "7c19f807497b30d865b14a0adb10c02420b6c05542e6817a5856973b535b8755"

// startCollector accepts OTLP over HTTP and drops it, so that exporting is
// paid for in full on the sending side.
func startCollector() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		exit(http.Serve(ln, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})))
	}()
	return "http://" + ln.Addr().String(), nil
}
