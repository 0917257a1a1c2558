package audit

import "github.com/memproxy/memproxy"

func requested(ev *memproxy.Event) bool {
	return ev.Decision != "" || ev.Type == memproxy.EventDecision || ev.Type == memproxy.EventOutcome
}

// ruled reports whether an event has a verdict. Requests have one, acts once they are
// completed. Changes of memories' histories have none.
func ruled(ev *memproxy.Event) bool {
	switch ev.Type {
	case memproxy.EventVersion, memproxy.EventCompaction, memproxy.EventPurge:
		return false
	}
	if ev.Act != nil {
		return ev.Act.Stage == memproxy.ActDone || ev.Act.Stage == memproxy.ActRefused
	}
	return requested(ev)
}

func (w *writer) act(a *memproxy.Act) {
	if a == nil {
		return
	}
	w.open("review")
	w.str("action", a.Action)
	w.count("have", int64(a.Have))
	w.count("need", int64(a.Need))
	w.str("reason", a.Reason)
	w.str("rule", a.Rule)
	w.str("stage", string(a.Stage))
	w.close()
}

func (w *writer) versions(vs []memproxy.VersionChange) {
	for i := range w.objects("versions", len(vs)) {
		w.count("after", vs[i].After)
		w.count("before", vs[i].Before)
		w.str("before_sha256", vs[i].BeforeSHA256)
		w.str("field", memproxy.Inert(vs[i].Field))
		w.str("kind", string(vs[i].Kind))
		w.str("memory", memproxy.InertID(vs[i].Memory))
		w.str("op", string(vs[i].Op))
		w.str("sha256", vs[i].SHA256)
	}
}
