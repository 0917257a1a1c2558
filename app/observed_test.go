package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// filed creates a block and returns the attestation of its source.
func (l *lettaRig) filed(text string, header ...string) string {
	l.t.Helper()
	a := l.do("POST", "/v1/blocks/", fmt.Sprintf(`{"label":"notes","value":%q}`, text), header...)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 200 {
		l.t.Fatalf("%d %s", a.status, a.body)
	}
	return l.rig.upstream(l.up + "/v1/blocks/" + made.ID).Metadata.Attestation
}

// Proves TRL-4: what a tool, a page or a file returned during an agent's run counts as
// observed by its session, whether in one answer, in a stream, or run from outside.
// What other sessions were shown, the caller's own words, repeated or not, and results
// of memory searches do not count.
func TestToolResultsAreObserved(t *testing.T) {
	t.Parallel()
	l := startLetta(t, someAgent)
	l.letta.Pages = map[string]string{
		"a": "The tea shop opens at nine. It closes on Sundays.", "b": `{"title":"Ferries","text":"The ferry to Leeds leaves at noon."}`, "c": "The lamp in the hall is green.",
		"d": "The bridge is closed on Fridays.", "e": "The library opens at ten.",
	}
	in := func(session string) []string { return []string{"X-Memproxy-Session", session} }
	run := func(session, script, more string) {
		t.Helper()
		a := l.do("POST", "/v1/agents/"+l.agent+"/messages", fmt.Sprintf(`{"input":%q%s}`, script+"\nTHEN\nSAY done", more), in(session)...)
		if a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	run("whole", `CALL fetch_webpage {"url":"a"}`, "")
	run("streamed", `CALL fetch_webpage {"url":"b"}`, `,"streaming":true`)
	l.do("POST", "/v1/agents/"+l.agent+"/tools/fetch_webpage/run", `{"args":{"url":"c"}}`, in("outside")...).want(t, 200)
	run("echoed", `CALL echo {"text":"The mill burnt down in May."}`, "")
	run("in other letters", `CALL echo {"text":"The barn burnt down in \u004day."}`, "")
	run("in other letters streamed", `CALL echo {"text":"The shed burnt down in \u004day."}`, `,"streaming":true`)
	run("in pieces", `CALL echo {"text":"The well ran dry in \u004day."}`, `,"streaming":true,"stream_tokens":true`)
	run("by tokens", `CALL fetch_webpage {"url":"d"}`, `,"streaming":true,"stream_tokens":true`)
	for session, more := range map[string]string{"two": "", "two streamed": `,"streaming":true`, "two by tokens": `,"streaming":true,"stream_tokens":true`} {
		run(session, "CALL run_code {\"code\":\"The fo+rge is shut.\"}\nCALL fetch_webpage {\"url\":\"e\"}", more)
	}
	run("unseen", `CALL echo {"text":"The dam broke in May."}`, `,"include_return_message_types":["tool_return_message","assistant_message"]`)
	run("by code", `CALL run_code {"code":"The ki+ln burnt down in May."}`, "")
	run("echoed later", `SAY The mill was sold in June.`, "")
	run("echoed elsewhere", `CALL echo {"text":"The mill was sold in June."}`, "")
	l.do("POST", "/v1/agents/"+l.agent+"/archival-memory", `{"text":"Bert keeps geese."}`).want(t, 200)
	run("searched", `CALL archival_memory_search {"query":"geese"}`, "")
	// Arguments that the strict parser refuses, then a page with the same text.
	l.letta.Pages["f"], l.letta.Pages["g"] = "The quay sank in May.", "The inn closed in May."
	run("before unreadable arguments", `CALL fetch_webpage {"url":"g"}`, "")
	run("after unreadable arguments", "CALL echo {\"text\":\"The quay sank in \\u004day.\",\"text\":\"\"}\nTHEN\nCALL fetch_webpage {\"url\":\"f\"}", "")
	for _, tc := range []struct{ session, text, want string }{
		{"before unreadable arguments", "The inn closed in May.", "tool-observed"},
		{"after unreadable arguments", "The quay sank in May.", "self-reported"},
		{"whole", "The tea shop opens at nine.", "tool-observed"},
		{"whole", "It closes on Sundays.", "tool-observed"},
		{"whole", "It closes on Mondays.", "self-reported"},
		{"another", "The tea shop opens at nine.", "self-reported"},
		{"streamed", "The ferry to Leeds leaves at noon.", "tool-observed"},
		{"outside", "The lamp in the hall is green.", "tool-observed"},
		{"echoed", "The mill burnt down in May.", "self-reported"},
		{"in other letters", "The barn burnt down in May.", "self-reported"},
		{"in other letters streamed", "The shed burnt down in May.", "self-reported"},
		{"in pieces", "The well ran dry in May.", "self-reported"},
		{"by tokens", "The bridge is closed on Fridays.", "tool-observed"},
		{"two", "The library opens at ten.", "tool-observed"},
		{"two streamed", "The library opens at ten.", "tool-observed"},
		{"two by tokens", "The library opens at ten.", "tool-observed"},
		{"two by tokens", "The forge is shut.", "self-reported"},
		{"unseen", "The dam broke in May.", "self-reported"},
		{"by code", "The kiln burnt down in May.", "self-reported"},
		{"echoed elsewhere", "The mill was sold in June.", "self-reported"},
		{"searched", "Bert keeps geese.", "self-reported"},
	} {
		if got := l.filed(tc.text, in(tc.session)...); got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.session, tc.text, got, tc.want)
		}
	}
}

// Proves TRL-4: a file that a session reads, whole or in passages, was observed by that
// session only.
func TestFilesAreObserved(t *testing.T) {
	t.Parallel()
	const folder, file = "/v1/folders/source-44444444-4444-4444-8444-444444444444", "file-55555555-5555-4555-8555-555555555555"
	l := startLettaBehind(t, someAgent, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			answer, there := map[string]string{
				folder:                    `{"id":"source-44444444-4444-4444-8444-444444444444","name":"f"}`,
				folder + "/files/" + file: `{"id":"` + file + `","source_id":"source-44444444-4444-4444-8444-444444444444","file_name":"ferry.txt","content":"The ferry to Leeds leaves at noon. It takes an hour."}`,
				folder + "/passages":      `[{"id":"passage-66666666-6666-4666-8666-666666666666","source_id":"source-44444444-4444-4444-8444-444444444444","file_id":"` + file + `","text":"The mill opens at ten."}]`,
			}[q.URL.Path]
			if !there {
				h.ServeHTTP(w, q)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		})
	})
	in := func(session string) []string { return []string{"X-Memproxy-Session", session} }
	for session, path := range map[string]string{"file": folder + "/files/" + file + "?include_content=true", "passages": folder + "/passages"} {
		if a := l.do("GET", path, "", in(session)...); a.status != 200 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, tc := range []struct{ session, text, want string }{
		{"file", "The ferry to Leeds leaves at noon.", "tool-observed"},
		{"file", "The ferry to Leeds leaves at one.", "self-reported"},
		{"passages", "The mill opens at ten.", "tool-observed"},
		{"passages", "The ferry to Leeds leaves at noon.", "self-reported"},
		{"another", "The mill opens at ten.", "self-reported"},
	} {
		if got := l.filed(tc.text, in(tc.session)...); got != tc.want {
			t.Errorf("%s, %q: %s, want %s", tc.session, tc.text, got, tc.want)
		}
	}
}
