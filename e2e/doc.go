// Package e2e runs memproxy, as the binary it ships as, against the real
// parts: the Mem0 engine, Letta, their unmodified SDKs, Envoy, Postgres,
// redis-server. It needs the build tag e2e and what e2e/install.sh and
// e2e/clients/install.sh install; `make e2e` does all of it.
package e2e
