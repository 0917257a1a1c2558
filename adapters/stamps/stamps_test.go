package stamps_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/metadata"
	"github.com/memproxy/memproxy/internal/must"
)

func stamp() memproxy.Stamp {
	return memproxy.Stamp{
		ID: "d-1", Actor: "agent:\"ann\"", Trust: memproxy.TrustAuthenticated, Confidence: 705, Source: memproxy.SourceUnstated,
		Attestation: memproxy.SelfReported, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), SHA256: "00ff", Signature: "1.sig",
	}
}

// Proves TRL-2: a stamp is read back as it was written, to the per mille and the second,
// with and without optional members; over an older stamp they are written in any case. An
// incomplete stamp is ignored, and a corrupt one is read as one that fails verification.
func TestRoundTrip(t *testing.T) {
	plain, full := stamp(), stamp()
	full.Mark, full.Metadata = "layer.inferred", "AAAAAAAAAAA"
	full.Received, full.Session, full.Trigger = full.Time.Add(-time.Hour), "sha256:00112233445566778899aabbccddeeff", "mem0.v3.add"
	full.Score, full.Flags = 431, "role.assume markup.html encoded.base64"
	for _, want := range []memproxy.Stamp{plain, full} {
		for _, over := range []bool{false, true} {
			raw := stamps.Object(stamps.Members(&want, over))
			if got := stamps.ParseRaw(raw); got == nil || *got != want {
				t.Errorf("%s is read as %+v", raw, got)
			}
			if named := bytes.Contains(raw, []byte("memproxy_mark")) && bytes.Contains(raw, []byte("memproxy_meta")); named != (over || want.Mark != "") {
				t.Errorf("over %v: %s", over, raw)
			}
			if len(raw) > 1024 {
				t.Errorf("%d bytes", len(raw))
			}
		}
	}
	for c := memproxy.PerMille(0); c <= memproxy.Full; c++ {
		plain.Confidence = c
		if got := stamps.ParseRaw(stamps.Object(stamps.Members(&plain, false))); got == nil || *got != plain {
			t.Errorf("%d is read as %+v", c, got)
		}
	}
	for _, raw := range []string{
		`{"memproxy_id":1,"memproxy_sig":[],"memproxy_ts":"yesterday","memproxy_confidence":"all"}`, `{"memproxy_id":"d","memproxy_sig":"s","memproxy_confidence":7}`,
	} {
		if got := stamps.ParseRaw([]byte(raw)); got == nil || got.Confidence != 0 {
			t.Errorf("%s is read as %+v", raw, got)
		}
	}
	for _, raw := range []string{"", "[]", "{", `{"memproxy_id":"d"}`, `{"memproxy_sig":"s"}`} {
		if got := stamps.ParseRaw([]byte(raw)); got != nil {
			t.Errorf("%q is read as %+v", raw, got)
		}
	}
}

// Proves EDGE-4: a stamp is sealed for the metadata that are sent with it, without
// members that the edits change and without memproxy's own.
func TestStampCoversMetadataSentWithIt(t *testing.T) {
	doc := must.Get(jsondoc.Parse([]byte(`{"about":"tea","confidence":0.9,"deep":{"memproxy_x":1,"a":2},"list":[1,{"c":0.9}],"Memproxy_sig":"x","\u00fc":1.50}`), 0))(t)
	p := must.Get(stamps.NewPatch(doc, &memproxy.Operation{Reserved: []string{"/deep/memproxy_x"}}))(t)
	p.Replace(doc.At("/confidence"), []byte("0.7"))
	p.Replace(doc.At("/list/1/c"), []byte("0.7"))
	p.Remove("/none/x")
	expect.Equal(t, fmt.Sprintf("%s", p.Kept(doc.Root)), `[{about "tea"} {confidence 0.7} {ü 1.50}]`)
	expect.Len(t, p.Kept(doc.At("/about")), 0)
	s := stamp()
	s.Metadata = metadata.Hashes(s.ID, p.Kept(doc.Root), func(string) bool { return false })
	for rest, want := range map[string]bool{`"about":"tea","confidence":0.70,"ü":1.5,"new":1`: false, `"about":"ale","confidence":0.7,"ü":1.5`: true, `"about":"tea"`: true} {
		doc := must.Get(jsondoc.Parse(stamps.Object([]byte(rest), stamps.Members(&s, false)), 0))(t)
		if got, altered := stamps.Parse(doc.Root, doc); got == nil || *got != s || altered != want {
			t.Errorf("%s: %+v, altered %v", rest, got, altered)
		}
	}
	if got := stamps.FilterMembers(doc.Src, true); len(got) != 1 || string(got[0]) != `"Memproxy_sig":"x"` {
		t.Errorf("%s", got)
	}
	if got := stamps.FilterMembers([]byte("[1]"), false); got != nil || stamps.FilterMembers(nil, false) != nil {
		t.Errorf("%s", got)
	}
}

// The names in a stamp, unlike those that resemble them, are not screened with a memory.
func TestNamesInStampsAreNoText(t *testing.T) {
	s := stamp()
	s.Received = s.Time
	doc := must.Get(jsondoc.Parse(stamps.Object(stamps.Members(&s, true), []byte(`"memproxy_received_at_all":1`)), 0))(t)
	expect.Equal(t, fmt.Sprint(wire.AppendSentences(nil, doc.Root)), "[memproxy_received_at_all]")
}
