package review

import (
	"net"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// operator returns the name of the user at the other end of a Unix socket, as the
// kernel recorded it when the user connected (SO_PEERCRED).
func operator(c *net.UnixConn) (string, bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return "", false
	}
	var cred *syscall.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err != nil || failed != nil || int(cred.Uid) != os.Geteuid() && cred.Uid != 0 {
		return "", false
	}
	id := strconv.Itoa(int(cred.Uid))
	if u, err := user.LookupId(id); err == nil {
		return u.Username, true
	}
	return id, true
}

// HasPeerCredentials reports whether the system identifies the peer of a socket.
const HasPeerCredentials = true

// OwnedByUser reports whether a file belongs to the user of this process.
func OwnedByUser(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
