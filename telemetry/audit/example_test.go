package audit_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

func Example() {
	state, err := os.MkdirTemp("", "audit")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)

	key, err := audit.LoadOrCreateKey(filepath.Join(state, "keys"))
	if err != nil {
		panic(err)
	}
	dir := filepath.Join(state, "audit")
	log, err := audit.Open(audit.Options{Dir: dir, Key: key, Origin: "memproxy.example/pod-7"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	err = log.Record(ctx, memproxy.Event{Type: memproxy.EventDecision, Decision: "d1", Verdict: memproxy.Deny, ShadowVerdict: memproxy.Deny})
	if err != nil {
		panic(err) // fail closed: nothing may be forwarded
	}
	if err := log.Close(ctx); err != nil {
		panic(err)
	}

	// The key comes from outside the log.
	public, err := audit.VerifierKey("memproxy.example/pod-7", key.Public().(ed25519.PublicKey))
	if err != nil {
		panic(err)
	}
	report, err := verify.Verify(ctx, verify.Options{Dir: dir, Key: public})
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Size, report.OK())
	// Output: 1 true
}
