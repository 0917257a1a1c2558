// Package e2e runs memproxy, as the binary it ships as, against the real
// parts: the Mem0 engine, its unmodified SDKs, redis-server. It needs the
// build tag e2e and what e2e/install.sh installs; `make e2e` does both.
package e2e
