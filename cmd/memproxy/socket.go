package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/review"
)

// reviewSocket is the name of the operator's socket in the state directory.
const reviewSocket = "review.sock"

// listenLocal lets the operator of this machine review: on a socket that only
// the user that memproxy runs as can open.
func (s *sidecar) listenLocal() error {
	path := s.path(reviewSocket)
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		_ = os.Remove(path) // left by a process that was killed; listening says what is wrong
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		// A path may be too long for one, or the directory lie on a file system
		// without sockets: that costs the local operator, not the service.
		s.log.Warn("the operator of this machine cannot review without a token: there is no socket", "path", path, "error", err)
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, ln.Close())
	}
	s.socket = path
	stop, _ := proxy.Serve(review.Operators(ln), proxy.ServerOptions{Handler: s.review.Local(), Log: s.log})
	s.onClose(stop)
	return nil
}

// reviewersAre says who can review what is held.
func reviewersAre(c *config.Config, socket string) string {
	var who []string
	for _, r := range c.Review.Reviewers {
		who = append(who, r.ID)
	}
	if socket != "" {
		who = append(who, "the user that memproxy runs as ("+socket+")")
	}
	if len(who) == 0 {
		return "nobody"
	}
	return strings.Join(who, ", ")
}

// sayWhoReviews tells it in the log.
func (s *sidecar) sayWhoReviews() {
	who := reviewersAre(s.cfg, s.socket)
	if who == "nobody" {
		s.log.Error("held writes wait for ever: nobody can review them; configure review.reviewers")
		return
	}
	s.log.Info("held writes are reviewed by "+who, "need", max(1, s.cfg.Review.Need))
}
