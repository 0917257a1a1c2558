package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/memproxy/memproxy/config"
)

// surroundings are what would keep a configuration from running on this machine,
// as things are, a sentence each. Nothing is left behind. Configurations are also
// checked where they do not run, so that none of this makes one invalid.
func (a *app) surroundings(cfg *config.Config) []string {
	var out []string
	if err := writable(cfg.State); err != nil {
		out = append(out, fmt.Sprintf("state cannot be written: %v", err))
	}
	if path, err := socketPath(cfg.State, a.Getenv); err == nil && answers(path) {
		return out // the addresses are its own
	}
	addrs := []string{cfg.Admin.Listen, cfg.Admin.Probes}
	for _, b := range cfg.Backends {
		addrs = append(addrs, b.Listen)
	}
	for _, addr := range slices.DeleteFunc(addrs, func(addr string) bool { return addr == "" }) {
		ln, err := net.Listen("tcp", addr)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			out = append(out, fmt.Sprintf("%s is in use: by another program, or by memproxy, if it runs already", addr))
		case err != nil:
			out = append(out, fmt.Sprintf("%s cannot be listened on: %v", addr, err))
		default:
			_ = ln.Close() // it was only tried
		}
	}
	return out
}

// answers reports whether somebody listens on a socket.
func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was said
	return true
}

// writable tries to write into a directory, or, where it is not there yet, into the
// nearest one above it.
func writable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		if err == nil {
			break
		}
		if up := filepath.Dir(dir); !errors.Is(err, fs.ErrNotExist) || up == dir {
			return err
		} else {
			dir = up
		}
	}
	f, err := os.CreateTemp(dir, ".memproxy-check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
