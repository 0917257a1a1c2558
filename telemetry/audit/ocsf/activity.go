package ocsf

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// activity describes a request: its decision or its outcome.
func (e *event) activity(r *verify.Record) {
	e.ClassUID, e.ClassName = classAPI, "API Activity"
	e.CategoryUID, e.CategoryName = 6, "Application Activity"
	op := cmp.Or(r.Operation, &verify.Operation{})
	e.ActivityID, e.ActivityName = crud(op.Kind)
	if op.Kind == "" && len(r.Versions) > 0 {
		e.ActivityID, e.ActivityName = versionVerb(r.Versions)
	}
	e.API = &api{Operation: orUnknown(op.Route), Request: &entity{UID: orUnknown(r.Decision)}}
	if op.Backend != "" {
		e.API.Service = &entity{Name: op.Backend}
	}
	e.addActor(r)
	e.addResources(r, op)
	e.addControl(r)
	if o := r.Outcome; o != nil && o.Status != 0 {
		e.HTTPResponse, e.API.Response = &apiResponse{Code: o.Status}, &apiResponse{Code: o.Status}
	}
	if e.StatusID == 2 && len(r.Reasons) > 0 {
		e.API.Response = cmp.Or(e.API.Response, &apiResponse{})
		e.API.Response.Error, e.API.Response.ErrorMessage = string(r.Reasons[0].Code), r.Reasons[0].Detail
	}
	e.Message = sentence(r, op)
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }

func crud(kind string) (int, string) {
	switch kind {
	case "learn":
		return 1, "Create"
	case "recall", "attach":
		return 2, "Read"
	case "correct":
		return 3, "Update"
	case "forget":
		return 4, "Delete"
	}
	return 99, orUnknown(kind)
}

// versionVerb returns OCSF's verb for versions: the one of all, or Update.
func versionVerb(versions []memproxy.VersionChange) (int, string) {
	op := versions[0].Op
	switch {
	case slices.ContainsFunc(versions, func(v memproxy.VersionChange) bool { return v.Op != op }):
	case op == memproxy.OpWrite, op == memproxy.OpSeal:
		return crud("learn")
	case op == memproxy.OpDelete, op == memproxy.OpPurge:
		return crud("forget")
	}
	return crud("correct")
}

func (e *event) addActor(r *verify.Record) {
	p := cmp.Or(r.Principal, &verify.Principal{})
	u := user{UID: p.ID, Name: orUnknown(p.ID), TypeID: 99, Type: p.Kind}
	switch p.Kind {
	case "human":
		u.TypeID, u.Type = 1, "User"
	case "", "anonymous":
		u.TypeID, u.Type = 0, "Unknown"
	}
	if p.Tenant != "" {
		u.Org = &entity{UID: p.Tenant, Name: p.Tenant}
	}
	e.Actor = &actor{User: u}
	if r.Session != "" {
		e.Actor.Session = &entity{UID: r.Session}
	}
	// The log holds no addresses: the source is the authenticated caller.
	e.SrcEndpoint = &entity{Name: orUnknown(p.ID)}
}

// addResources adds the memories and fields that a request concerned.
func (e *event) addResources(r *verify.Record, op *verify.Operation) {
	add := func(kind string, ids []string) {
		for _, id := range ids {
			e.Resources = append(e.Resources, resource{UID: id, Type: kind})
		}
	}
	kind := "memory"
	if r.Review != nil {
		kind, _, _ = strings.Cut(r.Review.Action, ".") // what the reviewer acts on: hold, session, memory
	}
	add(kind, op.Targets)
	if r.Outcome != nil {
		add("memory", r.Outcome.Memories)
	}
	add("memory field", op.Fields)
	e.Resources = slices.CompactFunc(e.Resources, func(a, b resource) bool { return a == b })
}

// fault reports whether a reason means that the gate could not decide, as opposed to a
// decision against the request.
func fault(code memproxy.ReasonCode) bool {
	return code == "internal.error" || code == "policy.error" || strings.HasSuffix(string(code), ".unavailable")
}

// addControl describes the action taken: the Security Control profile.
func (e *event) addControl(r *verify.Record) {
	if len(r.Reasons) > 0 {
		e.StatusCode, e.StatusDetail = string(r.Reasons[0].Code), r.Reasons[0].Detail
	}
	e.StatusID, e.Status, e.SeverityID = 1, "Success", 1
	do := func(id int, action string, disposition int, said string) {
		e.ActionID, e.Action, e.DispositionID, e.Disposition = id, action, disposition, said
	}
	switch r.Verdict {
	case "allow":
		do(1, "Allowed", 1, "Allowed")
		if r.ShadowVerdict == "deny" || r.ShadowVerdict == "hold" {
			do(3, "Observed", 15, "Detected") // shadow mode
			e.SeverityID, e.IsAlert = 3, true
		}
	case "amend":
		do(4, "Modified", 11, "Corrected")
		e.SeverityID = 2
	case "hold":
		do(2, "Denied", 3, "Quarantined")
		e.StatusID, e.Status, e.SeverityID, e.IsAlert = 99, "Held", 3, true
	case "deny":
		do(2, "Denied", 2, "Blocked")
		e.StatusID, e.Status, e.SeverityID, e.IsAlert = 2, "Failure", 3, true
		if slices.ContainsFunc(r.Reasons, func(x memproxy.Reason) bool { return fault(x.Code) }) {
			e.DispositionID, e.Disposition = 27, "Error"
		} else if len(e.Attacks) > 0 {
			e.SeverityID = 4
		}
	}
	if r.Review != nil {
		e.addReviewStatus(r.Review)
		return
	}
	if o := r.Outcome; o != nil {
		e.IsAlert = false // the decision was the alert
		if o.Status >= 400 || o.Cancelled || o.Ended != "" {
			e.StatusID, e.Status = 2, "Failure"
		}
	}
}

// addReviewStatus describes a reviewer's action. An attempt has no status of its own yet.
func (e *event) addReviewStatus(a *memproxy.Act) {
	e.IsAlert = false
	switch a.Stage {
	case memproxy.ActAttempted:
		e.StatusID, e.Status = 99, "Attempted"
	case memproxy.ActDone:
		e.StatusID, e.Status = 1, "Success"
	case memproxy.ActUnknown:
		e.StatusID, e.Status, e.SeverityID = 0, "Unknown", 3
	default:
		e.StatusID, e.Status, e.SeverityID = 2, "Failure", 2
	}
	e.StatusCode, e.StatusDetail = a.Rule, a.Reason
}

func sentence(r *verify.Record, op *verify.Operation) string {
	who := "somebody"
	if r.Principal != nil && r.Principal.ID != "" {
		who = r.Principal.ID
	}
	if a := r.Review; a != nil {
		s := orUnknown(a.Action) + " by " + who + " on " + orUnknown(op.Backend) + ": " + orUnknown(string(a.Stage))
		if a.Rule != "" {
			s += " (" + a.Rule + ")"
		}
		return s
	}
	if len(r.Versions) > 0 && r.Verdict == "" {
		return who + " made versions of memories on " + orUnknown(op.Backend)
	}
	what := map[string]string{"allow": "was allowed", "amend": "was allowed, with changes,", "hold": "is held for review:", "deny": "was denied"}[r.Verdict]
	if r.Outcome != nil {
		what = "had the outcome of"
	}
	s := strings.Join([]string{who, orUnknown(what), orUnknown(op.Kind), "on", orUnknown(op.Backend)}, " ")
	if codes := memproxy.Codes(r.Reasons); len(codes) > 0 {
		s += " (" + strings.Join(codes, ", ") + ")"
	}
	return s
}
