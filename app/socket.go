package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
)

const reviewSocket = "review.sock" // name of the operator's socket in the state directory

// maxSocket is the maximum length of a socket's path in bytes, without the terminating
// zero byte.
const maxSocket = 107

// socketPath returns the path of the operator's socket: review.sock in the state
// directory or, if that path is too long for a socket,
// $XDG_RUNTIME_DIR/memproxy/HASH.sock (without that variable
// TMPDIR/memproxy-UID/HASH.sock). HASH is the first 16 hex digits of the SHA-256 of the
// state directory's absolute path.
func socketPath(state string, getenv func(string) string) (string, error) {
	if !review.HasPeerCredentials {
		return "", errors.New("this operating system does not report the peer of a socket")
	}
	if path := filepath.Join(state, reviewSocket); len(path) <= maxSocket {
		return path, nil
	}
	whole, err := filepath.Abs(state)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), "memproxy-"+strconv.Itoa(os.Getuid()))
	if run := getenv("XDG_RUNTIME_DIR"); run != "" {
		dir = filepath.Join(run, "memproxy")
	}
	path := filepath.Join(dir, memproxy.TextSHA256(whole)[:16]+".sock")
	if len(path) > maxSocket {
		return "", fmt.Errorf("no path of at most %d bytes for a socket: neither in the state directory nor in %s", maxSocket, dir)
	}
	return path, nil
}

// ownDir creates a directory that only this user can access, or fails.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !review.OwnedByUser(info) {
		return fmt.Errorf("%s is not a directory of this user's alone", dir)
	}
	return nil
}

// listenLocal lets the operator of this machine review through a socket that only
// memproxy's own user can open.
func (s *App) listenLocal() error {
	path, err := socketPath(s.cfg.State, s.opt.Getenv)
	if err == nil && filepath.Base(path) != reviewSocket {
		err = ownDir(filepath.Dir(path))
	}
	if err != nil { // only the local operator is affected, not the service
		s.log.Warn("reviews need a token: the local operator's socket cannot be opened", "error", err)
		return nil
	}
	_ = removeSocket(path) // an error appears when listening
	ln, err := listenSocket(path)
	if err != nil {
		// The directory may be on a file system without sockets.
		s.log.Warn("reviews need a token: the local operator's socket cannot be opened", "path", path, "error", err)
		return nil
	}
	s.socket = path
	stop, failed := proxy.Serve(frontend.Limit(review.Operators(ln), frontend.ListenOptions{}), proxy.ServerOptions{Handler: adminPages(s, s.review.OperatorHandler()), Cut: s.review.Runner.AbortAll, Log: s.log})
	s.group.Serve(stageListeners, "operators", stop, failed)
	return nil
}

// listenSocket listens on a socket that only memproxy's own user can open, whatever the
// umask: whoever opens it speaks for the operator, or for Envoy.
func listenSocket(path string) (*net.UnixListener, error) {
	// On Linux the file gets the mode of the socket, so that other users cannot open it
	// before the Chmod below. Other systems refuse this Fchmod.
	private := func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}
	ln, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln.(*net.UnixListener), nil
}

// describeReviewers describes who can review held writes.
func describeReviewers(c *config.Config, socket string) string {
	var who []string
	for _, r := range c.Review.Reviewers {
		if slices.Contains(r.Roles, string(review.RoleReview)) {
			who = append(who, r.ID)
		}
	}
	if socket != "" {
		who = append(who, "the user that memproxy runs as ("+socket+")")
	}
	if len(who) == 0 {
		return "nobody"
	}
	return strings.Join(who, ", ")
}

func (s *App) logReviewers() {
	who := describeReviewers(s.cfg, s.socket)
	if who == "nobody" {
		s.log.Error("writes that would be held are refused, because there is no reviewer; configure review.reviewers")
		return
	}
	s.log.Info("held writes are reviewed by "+who, "need", max(1, s.cfg.Review.Need))
}
