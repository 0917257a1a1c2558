package memproxy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Lines end as clients end them, and a name without a colon is a field without a value.
func TestStreamEventsAreReadAsClientsReadThem(t *testing.T) {
	for event, want := range map[string][2]string{
		"event: e\ndata: {}\n\n":            {"{}", "event: e"},
		"data:{\r\ndata: }\r\n\r\n":         {"{\n}", ""},
		"data: {\rdata: }\rid: 1\r\r":       {"{\n}", "id: 1"},
		"data:  {}\n: ping\n\n":             {" {}", ": ping"},
		"data\ndata\n\n":                    {"\n", ""},
		"datax: 1\nxdata: 2\n data: 3\n\n":  {"", "datax: 1|xdata: 2| data: 3"},
		"data: 1\ndata: 2\ndata: 3 and 4\n": {"1\n2\n3 and 4", ""},
	} {
		data, others := memproxy.SplitStreamEvent([]byte(event))
		expect.Equal(t, string(data), want[0], event)
		expect.Equal(t, string(bytes.Join(others, []byte("|"))), want[1], event)
	}
}

// FuzzStreamEvent compares the reader with one that follows the specification line by line,
// and reads what the writer writes.
func FuzzStreamEvent(f *testing.F) {
	for _, seed := range []string{"data: {}\n\n", "event: e\rdata: {\r\ndata\ndata:}\n\n", ": x\n\n", "data: [DONE]", "\r\rdatax\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		before := bytes.Clone(event)
		data, others := memproxy.SplitStreamEvent(event)
		expect.Equal(t, string(event), string(before), "the event was changed")
		wantData, wantOthers := specified(string(event))
		expect.List(t, texts(others), wantOthers, "other lines")
		if (data == nil) != (wantData == nil) {
			t.Fatalf("%q has data: %v", event, data != nil)
		}
		expect.Equal(t, string(data), strings.Join(wantData, "\n"), "data")

		joined := memproxy.JoinStreamEvent(data, others...)
		again, lines := memproxy.SplitStreamEvent(joined)
		expect.List(t, texts(lines), wantOthers, "other lines of the written event")
		expect.List(t, strings.FieldsFunc(string(again), isLineFeed), strings.FieldsFunc(string(data), isLineFeed), "data of the written event")
		if len(joined) > 0 && (!bytes.HasSuffix(joined, []byte("\n\n")) || bytes.Contains(joined[:len(joined)-2], []byte("\n\n"))) {
			t.Fatalf("%q is not one event", joined)
		}
	})
}

// specified reads an event as the specification describes it.
func specified(event string) (data, others []string) {
	event = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(event)
	for _, line := range strings.Split(event, "\n") {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case line == "":
		case name == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		default:
			others = append(others, line)
		}
	}
	return data, others
}

func texts(lines [][]byte) (out []string) {
	for _, line := range lines {
		out = append(out, string(line))
	}
	return out
}

func isLineFeed(r rune) bool { return r == '\n' }
