package secrets_test

import (
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/secrets"
)

// FuzzScan holds any text to what the package promises: spans are inside the
// text, in order, without overlap, and a scan of the same text says the same.
func FuzzScan(f *testing.F) {
	for _, file := range []string{"credentials.txtar", "personal.txtar"} {
		for _, s := range []string{"hits", "misses"} {
			for _, line := range section(f, file, s) {
				f.Add(line)
			}
		}
	}
	for _, w := range worst {
		f.Add(strings.Repeat(w, 20))
	}
	f.Fuzz(func(t *testing.T, text string) {
		hits := secrets.Scan(text)
		last := 0
		for _, h := range hits {
			must.That(t, h.Start >= last && h.End > h.Start && h.End <= len(text), "span %d:%d after %d in %d bytes", h.Start, h.End, last, len(text))
			last = h.End
		}
		must.Len(t, secrets.Scan(text), len(hits))
	})
}

// worst are the pieces that make each finder look farthest when repeated.
var worst = []string{"eyJ", "eyJhbGciOiJIUzI1NiJ9.", "-----BEGIN RSA PRIVATE KEY-----", "a@", "aaaaaaaa@", "a.", "://", "a://b:c", "token=", "password: ", "sk-ant-", "ghp_", "4 ", "4111 ", "+1(", "DE89 ", "=", ":", "-", "password is "}

func BenchmarkScan(b *testing.B) {
	prose := strings.Repeat("The user prefers tea at 10:30, lives in Ankara, and asked about v1.2.3 of the app; see the notes. ", 85)[:8<<10]
	b.Run("prose", func(b *testing.B) { run8k(b, prose) })
	for _, w := range worst {
		b.Run(w, func(b *testing.B) { run8k(b, strings.Repeat(w, 8<<10/len(w))) })
	}
}

func run8k(b *testing.B, text string) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		secrets.Scan(text)
	}
}
