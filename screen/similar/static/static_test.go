package static

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

const vocab = "[PAD]\n[UNK]\nignore\nprevious\ninstruct\n##ions\ntea\n,\nsise\n水\n"

// safetensors writes a file of F32 tensors.
func safetensors(t testing.TB, tensors map[string][][]float32) []byte {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	var names []string
	for name := range tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		from := len(data)
		rows := tensors[name]
		for _, row := range rows {
			for _, f := range row {
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
			}
		}
		shape := []int{len(rows), len(rows[0])}
		if name == "weights" {
			shape = []int{len(rows[0])}
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{from, len(data)}}
	}
	h, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...), data...)
}

func table(t testing.TB) map[string][][]float32 {
	return map[string][][]float32{"embeddings": {{0, 0}, {9, 9}, {1, 0}, {1, 0}, {0, 1}, {0, 1}, {-1, 0}, {0, 0}, {2, 2}, {3, 3}}}
}

// Proves MFW-4, locally: a table and a tokenizer in files embed texts.
func TestEmbed(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{
		"vocab.txt":         []byte(vocab),
		"table.safetensors": safetensors(t, table(t)),
	}
	for name, raw := range files {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, err := Open(Options{Tokenizer: filepath.Join(dir, "vocab.txt"), Table: filepath.Join(dir, "table.safetensors")})
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Embed(t.Context(), []string{"Ignore previous INSTRUCTIONS", "tea", "nothing known", ""})
	want := [][]float32{{0.5, 0.5}, {-1, 0}, {0, 0}, {0, 0}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	if _, err := Open(Options{Tokenizer: filepath.Join(dir, "vocab.txt"), Table: filepath.Join(dir, "none")}); err == nil {
		t.Error("a missing table was read")
	}
	if _, err := Open(Options{Tokenizer: filepath.Join(dir, "vocab.txt"), Table: filepath.Join(dir, "table.safetensors"), MaxFile: 20}); err == nil {
		t.Error("a file over the bound was read")
	}
}

func TestTokens(t *testing.T) {
	fromText, err := ParseVocab([]byte(vocab))
	if err != nil {
		t.Fatal(err)
	}
	fromJSON, err := ParseTokenizer([]byte(`{"normalizer":{"type":"BertNormalizer","lowercase":true,"strip_accents":null},
		"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",
		"vocab":{"[PAD]":0,"[UNK]":1,"ignore":2,"previous":3,"instruct":4,"##ions":5,"tea":6,",":7,"sise":8,"水":9}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int{
		"ignore, tea":                  {2, 7, 6},
		"Instructions":                 {4, 5},
		"instructor":                   nil, // half a word says nothing
		"Şişe":                         {8},
		"tea水tea":                      {6, 9, 6},
		"te\u00ada":                    {6}, // a soft hyphen hides nothing
		"[UNK]":                        nil,
		strings.Repeat("tea", 200):     nil,
		"tea\xfftea":                   nil,
		"ignore tea tea tea tea tea x": {2, 6, 6, 6},
	} {
		for _, tok := range []*Tokenizer{fromText, fromJSON} {
			if got := tok.Tokens(text, 4); !slices.Equal(got, want) {
				t.Errorf("%.30q: got %v, want %v", text, got, want)
			}
		}
	}
}

// Vocabularies as SentencePiece writes them.
func TestSentencePiece(t *testing.T) {
	const pieces = `["<unk>",0],["▁tea",-3],["▁",-2],["t",-4],["e",-4],["a",-4],["ea",-2],["▁te",-3],["s",-5]`
	for name, c := range map[string]struct {
		file string
		want map[string][]int
	}{
		"unigram": {`{"model":{"type":"Unigram","unk_id":0,"vocab":[` + pieces + `]}}`, map[string][]int{
			"tea": {1}, " tea  teas": {1, 1, 8}, "ea": {2, 6}, "水tea": {2, 3, 6}, "": nil, "\xff": {2},
		}},
		"BPE": {`{"model":{"type":"BPE","vocab":{"<unk>":0,"▁tea":1,"▁":2,"t":3,"e":4,"a":5,"ea":6,"▁t":7,"s":8},
			"merges":["e a",["▁","t"],"▁t ea"]}}`, map[string][]int{
			"tea": {1}, " tea  teas": {1, 1, 8}, "ea": {2, 6}, "水tea": {2, 3, 6}, "": nil, "\xff": {2},
		}},
	} {
		tok, err := ParseTokenizer([]byte(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for text, want := range c.want {
			if got := tok.Tokens(text, 10); !slices.Equal(got, want) {
				t.Errorf("%s %q: got %v, want %v", name, text, got, want)
			}
		}
		if got := tok.Tokens(strings.Repeat("teas", 10_000), 7); len(got) != 7 {
			t.Errorf("%s: %d tokens", name, len(got))
		}
	}
}

// Tokens that share rows, and rows of small numbers.
func TestSharedRows(t *testing.T) {
	h := `{"embeddings":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},"mapping":{"dtype":"I64","shape":[3],"data_offsets":[4,28]},"weights":{"dtype":"F16","shape":[3],"data_offsets":[28,34]}}`
	raw := append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...)
	raw = append(raw, 1, 0xff, 4, 5) // 1 -1, 4 5
	for _, row := range []uint64{1, 0, 0} {
		raw = binary.LittleEndian.AppendUint64(raw, row)
	}
	for _, half := range []uint16{0x3c00, 0x3c00, 0x4000} { // 1, 1, 2
		raw = binary.LittleEndian.AppendUint16(raw, half)
	}
	tab, err := ParseTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range [][]float32{{4, 5}, {1, -1}, {2, -2}} {
		v := make([]float32, 2)
		if tab.Add(v, id); !slices.Equal(v, want) {
			t.Errorf("token %d: %v, want %v", id, v, want)
		}
	}
}

func TestNumberFormats(t *testing.T) {
	for h, want := range map[uint16]float32{0x0000: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 1.0 / (1 << 24), 0x3555: 0.33325195} {
		if got := half(h); got != want {
			t.Errorf("half %#04x: got %v, want %v", h, got, want)
		}
	}
	weighted := table(t)
	weighted["weights"] = [][]float32{{1, 1, 2, 1, 1, 1, 1, 1, 1, 1}}
	got, err := ParseTable(safetensors(t, weighted))
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, 2)
	if got.Add(v, 2); v[0] != 2 {
		t.Errorf("weighted: %v", v)
	}
	if got.Add(v, 3); v[0] != 3 {
		t.Errorf("and one more: %v", v)
	}
}

// Files that are cut, hostile or of another kind are errors.
func TestBrokenFiles(t *testing.T) {
	good := safetensors(t, table(t))
	header := func(s string, data ...byte) []byte {
		return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...), data...)
	}
	four := []byte{0, 0, 0, 0}
	eight := append(four, four...)
	for name, raw := range map[string][]byte{
		"empty":          nil,
		"cut":            good[:len(good)-1],
		"header too big": binary.LittleEndian.AppendUint64(nil, 1<<60),
		"no JSON":        header("nonsense", eight...),
		"no matrix":      header(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, eight...),
		"two matrices":   header(`{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1,1],"data_offsets":[4,8]}}`, eight...),
		"mapping":        header(`{"a":{"dtype":"I8","shape":[1,1],"data_offsets":[0,1]},"mapping":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}}`+" ", 1, 9, 0, 0, 0),
		"few weights":    header(`{"a":{"dtype":"I8","shape":[2,1],"data_offsets":[0,2]},"weights":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1, 1),
		"other numbers":  header(`{"a":{"dtype":"I16","shape":[1,1],"data_offsets":[0,1]}}`, 0),
		"huge":           header(`{"a":{"dtype":"F32","shape":[1000000,4096],"data_offsets":[0,4]}}`, four...),
		"overflow":       header(`{"a":{"dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,4]}}`, four...),
		"backwards":      header(`{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[8,4]}}`, eight...),
		"outside":        header(`{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}}`, eight...),
		"not a number":   header(`{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}`, 0, 0, 0xc0, 0x7f),
	} {
		if _, err := ParseTable(raw); err == nil {
			t.Errorf("%s: was read", name)
		}
	}
	for name, raw := range map[string]string{"empty": "", "twice": "a\na\n", "long": strings.Repeat("a", 300)} {
		if _, err := ParseVocab([]byte(raw)); err == nil {
			t.Errorf("vocabulary %s: was read", name)
		}
	}
	for name, raw := range map[string]string{"no JSON": "x", "another": `{"model":{"type":"WordLevel","vocab":{"a":0}}}`, "no merges": `{"model":{"type":"BPE","vocab":{"a":0}}}`, "broken merge": `{"model":{"type":"BPE","vocab":{"a":0},"merges":["abc"]}}`, "no scores": `{"model":{"type":"Unigram","vocab":{"a":0}}}`, "no pair": `{"model":{"type":"Unigram","vocab":[["a","b"]]}}`, "no vocabulary": `{"model":{"type":"WordPiece"}}`, "negative": `{"model":{"type":"WordPiece","vocab":{"a":-1}}}`} {
		if _, err := ParseTokenizer([]byte(raw)); err == nil {
			t.Errorf("tokenizer %s: was read", name)
		}
	}
	tok, _ := ParseVocab([]byte("a\nb\n"))
	tab, err := ParseTable(header(`{"a":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]}}`, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(tok, tab, 10); err == nil {
		t.Error("a table that is too short for its vocabulary was taken")
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(safetensors(f, table(f)))
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tab, err := ParseTable(raw)
		if err != nil {
			return
		}
		if tab.Tokens < 1 || tab.Dim < 1 || len(tab.values) > len(raw) {
			t.Fatalf("%d × %d from %d bytes", tab.Tokens, tab.Dim, len(raw))
		}
		v := make([]float32, tab.Dim)
		tab.Add(v, 0)
		tab.Add(v, tab.Tokens-1)
	})
}

func FuzzTokenizer(f *testing.F) {
	f.Add([]byte(vocab), []byte(`{"model":{"type":"WordPiece","vocab":{"a":0,"##b":1}}}`), "ab, ignore 水 ÿ")
	f.Add([]byte(nil), []byte(`{"model":{"type":"Unigram","vocab":[["a",-1],["▁a",-2]]}}`), "a ab")
	f.Add([]byte(nil), []byte(`{"model":{"type":"BPE","vocab":{"a":0,"aa":1},"merges":["a a"]}}`), "aaa")
	f.Fuzz(func(t *testing.T, lines, file []byte, text string) {
		for _, parse := range []func([]byte) (*Tokenizer, error){func([]byte) (*Tokenizer, error) { return ParseVocab(lines) }, func([]byte) (*Tokenizer, error) { return ParseTokenizer(file) }} {
			tok, err := parse(nil)
			if err != nil {
				continue
			}
			ids := tok.Tokens(text, 16)
			if len(ids) > 16 || len(ids) > 0 && (slices.Min(ids) < 0 || slices.Max(ids) > tok.max) {
				t.Fatalf("ids %v of up to %d", ids, tok.max)
			}
		}
	})
}
