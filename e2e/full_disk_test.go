//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/freeport"
	"github.com/memproxy/memproxy/internal/must"
)

// volume is a small disk of its own, on which a test takes up all room.
type volume struct{ dir string }

func mount(t *testing.T, dir string) volume {
	t.Helper()
	must.Do(t, os.MkdirAll(dir, 0o700))
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m,mode=700")
	if errors.Is(err, syscall.EPERM) {
		t.Skip("a disk of one's own can be mounted by root only")
	}
	must.Do(t, err)
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return volume{dir}
}

func (v volume) fill(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(v.dir, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must.Do(t, err)
	defer f.Close()
	for block := bytes.Repeat([]byte{1}, 4096); err == nil; {
		_, err = f.Write(block)
	}
	must.Is(t, err, syscall.ENOSPC)
}

func (v volume) free(t *testing.T) {
	t.Helper()
	must.Do(t, os.Remove(filepath.Join(v.dir, "filler")))
}

// The disk of each thing that memproxy writes is full, one at a time: from the first
// record that has no room, writes, held writes and approvals are refused before they
// reach the backend, in its dialect and with a time to retry, and /readyz names what is
// wrong. When there is room again all goes on by itself, and of what was acknowledged
// nothing is missing: it has its record, its owner and its version.
//
// Proves CARD-7, EDGE-3, EDGE-15, SYN-5.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		disk          string // that is full, under the state directory
		postgres      bool   // the ledger is elsewhere
		redis         bool   // so are the budgets
		reads, review int    // status of a list and of an approval meanwhile; a held write has paid already
		check         string // of /readyz
	}{
		{"audit log", "audit", false, false, 503, 503, `"name":"audit","ok":false`},
		{"ledger and its logs", ".", false, true, 200, 503, `"name":"ledger","ok":false`},
		{"totals of budgets", ".", true, false, 200, 200, `"name":"budgets","ok":false`},
		{"all on one disk", "", false, false, 503, 503, `"ok":false`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			back := startMem0(t)
			home := t.TempDir()
			writeFile(t, filepath.Join(home, "policies/own.cedar"), []byte(holdsBob))
			disks := map[string]volume{".": mount(t, filepath.Join(home, "state"))}
			if disks[""] = disks["."]; tc.disk != "" {
				disks["audit"] = mount(t, filepath.Join(home, "state", "audit"))
			}
			conf := strings.Replace(onPostgres(back.url, ""), "ledger: {url: \"\"}\n", "", 1)
			if tc.postgres {
				addr := freeport.Addr(t)
				startPostgres(t, t.TempDir(), addr)
				conf = onPostgres(back.url, postgresURL(addr))
			}
			budgets := "budgets: {default: {writes_per_hour: 100000, writes_total: 1000000}}\n"
			if tc.redis {
				budgets = strings.Replace(budgets, "}}", fmt.Sprintf("}, redis: {url: %q, timeout: 10s}}", startRedis(t).url), 1)
			}
			car := serve(t, home, conf+budgets)
			write := func(text, user string) answer {
				return call(t, "POST", car.base+"/memories", "k", writtenText(text, user))
			}
			review := func(verb, hold string) answer {
				return call(t, "POST", car.admin+"/v1/holds/"+hold+"/"+verb, "", `{"reason":"harmless"}`, "Authorization", "Bearer "+reviewToken)
			}
			ready := func() answer { return call(t, "GET", car.admin+"/readyz", "", "") }
			hold := decisionID(write("Bob sails.", "bob"))
			ids := []string{writtenAt(t, car, "Ann likes tea number 0.")} // her name is known from here on
			records := []string{hold}                                     // what was acknowledged
			disk := disks[tc.disk]
			disk.fill(t)
			refused := answer{}
			for i := 1; refused.status == 0 && i < 3000; i++ {
				text := fmt.Sprintf("Ann likes tea number %d.", i)
				a := write(text, "ann")
				if a.status == 200 {
					_, id, _ := strings.Cut(a.body, `"id":"`)
					ids, records = append(ids, id[:36]), append(records, decisionID(a))
				} else if refused = a; back.sent(text) > 0 {
					t.Errorf("a write that was refused arrived: %d %s", a.status, a.body)
				}
			}
			t.Logf("%d writes until the disk was full", len(ids))
			wait, err := strconv.Atoi(refused.header.Get("Retry-After"))
			expect.That(t, refused.status == 503 && strings.Contains(refused.body, `"detail":`) && wait >= 1 && err == nil, "a write: %d %v %s", refused.status, refused.header, refused.body)
			// One that still fits is held, and has its record.
			if a := write("Bob rows.", "bob"); a.status == 200 && strings.HasPrefix(a.header.Get("X-Memproxy-Decision"), "hold") {
				records = append(records, decisionID(a))
			} else if a.status != 503 {
				t.Errorf("a hold: %d %s", a.status, a.body)
			}
			review("approve", hold).want(t, tc.review, "an approval")
			call(t, "GET", car.base+"/memories?user_id=ann", "k", "").want(t, tc.reads, "a read")
			waitFor(t, "readiness to fail", func() bool { return ready().status == 503 }) // it is cached for a second
			ready().has(t, tc.check)
			call(t, "GET", car.admin+"/healthz", "", "").want(t, 200, "liveness")
			expect.That(t, back.sent("Bob rows.") == 0 && (tc.review != 503 || back.sent("Bob sails.") == 0), "what is held, or an approval that could not be recorded, was sent")
			disk.free(t)
			waitFor(t, "room to be noticed", func() bool {
				return write("Ann likes milk.", "ann").status == 200 && ready().status == 200
			})
			review("approve", hold)
			waitFor(t, "the approved write", func() bool { return back.sent("Bob sails.") == 1 })
			for _, id := range ids {
				if a := call(t, "GET", car.base+"/memories/"+id, "k", ""); a.status != 200 || a.header.Get("X-Memproxy-Unverified") != "" || car.history(t, "mem0", id) != "write" {
					t.Errorf("%s is shown as %d %v %s, with the history %q", id, a.status, a.header, a.body, car.history(t, "mem0", id))
				}
			}
			car.stop()
			car.verifyAudit(t)
			car.recorded(t, records)
		})
	}
}
