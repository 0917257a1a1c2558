package ocsf

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// Event writes a record as one OCSF event: a JSON object without a line end. origin is
// the log's name in its checkpoints, or "" if it is unknown.
func Event(r *verify.Record, origin string) ([]byte, error) {
	logged, _ := r.At() // Decode checked it
	at := logged
	if t, err := time.Parse(time.RFC3339Nano, r.EventTime); err == nil {
		at = t
	}
	sum := sha256.Sum256(r.Raw)
	uid := strconv.FormatUint(r.Index, 10)
	if origin != "" {
		uid = origin + ":" + uid
	}
	e := &event{
		Time: at.UnixMilli(),
		Metadata: metadata{
			Version: SchemaVersion, Product: thisProduct, Profiles: []string{"security_control"},
			UID: uid, Sequence: r.Index, CorrelationUID: r.Decision,
			EventCode: r.Type, LogName: origin, LoggedTime: logged.UnixMilli(),
		},
		RawDataHash: &fingerprint{AlgorithmID: 3, Algorithm: "SHA-256", Value: hex.EncodeToString(sum[:])},
	}
	e.threats(r)
	if r.Policy != "" {
		e.Policy = &policy{Name: "memproxy rules", Version: r.Policy}
	}
	switch memproxy.EventType(r.Type) {
	case memproxy.EventDecision, memproxy.EventOutcome, memproxy.EventReview, memproxy.EventVersion:
		e.activity(r)
	case memproxy.EventStart, memproxy.EventStop, memproxy.EventReload, "prune", memproxy.EventAnchor, memproxy.EventSweep, memproxy.EventSeal, memproxy.EventPurge, memproxy.EventCompaction:
		e.lifecycle(r)
	default:
		e.finding(r)
	}
	e.TypeUID = e.ClassUID*100 + e.ActivityID
	e.TypeName = e.ClassName + ": " + e.ActivityName
	e.Severity = severities[e.SeverityID]
	e.Unmapped = unmappedMembers(r)
	return json.Marshal(e, json.Deterministic(true))
}

var severities = [...]string{"Unknown", "Informational", "Low", "Medium", "High", "Critical"}

// thisProduct is the product that OCSF requires in an event.
var thisProduct = product{Name: "memproxy", VendorName: "memproxy"}

func (e *event) threats(r *verify.Record) {
	var atlas []string
	for _, reason := range r.Reasons {
		t := threats()[reason.Code]
		if t.asi != "" {
			e.Metadata.Labels = append(e.Metadata.Labels, "owasp_asi:"+t.asi)
		}
		if t.atlas != "" {
			atlas = append(atlas, t.atlas)
		}
		if reason.Rule != "" {
			e.Authorizations = append(e.Authorizations, authorization{string(reason.Code), policy{Name: reason.Rule, Version: r.Policy}})
		}
	}
	slices.Sort(e.Metadata.Labels)
	e.Metadata.Labels = slices.Compact(e.Metadata.Labels)
	slices.Sort(atlas)
	for _, id := range slices.Compact(atlas) {
		// AML.T0080.000 is a sub-technique of AML.T0080.
		if strings.Count(id, ".") == 2 {
			parent := id[:strings.LastIndexByte(id, '.')]
			e.Attacks = append(e.Attacks, attack{Technique: technique(parent), SubTechnique: technique(id)})
			continue
		}
		e.Attacks = append(e.Attacks, attack{Technique: technique(id)})
	}
}

func technique(id string) *entity { return &entity{UID: id, Name: techniques[id]} }

func (e *event) lifecycle(r *verify.Record) {
	e.ClassUID, e.ClassName = classLifecycle, "Application Lifecycle"
	e.CategoryUID, e.CategoryName = 6, "Application Activity"
	e.App, e.SeverityID = &thisProduct, 1
	e.Message = r.Detail
	switch memproxy.EventType(r.Type) {
	case memproxy.EventStart:
		e.ActivityID, e.ActivityName = 3, "Start"
	case memproxy.EventStop:
		e.ActivityID, e.ActivityName = 4, "Stop"
	case memproxy.EventReload:
		e.ActivityID, e.ActivityName = 8, "Update"
	default:
		e.ActivityID, e.ActivityName = 99, r.Type
	}
}

func (e *event) finding(r *verify.Record) {
	e.ClassUID, e.ClassName = classFinding, "Detection Finding"
	e.CategoryUID, e.CategoryName = 2, "Findings"
	e.ActivityID, e.ActivityName = 1, "Create"
	e.SeverityID, e.IsAlert = 3, true
	switch t := memproxy.EventType(r.Type); {
	case t == memproxy.EventBudgetWarning:
		e.SeverityID, e.IsAlert = 2, false
	case t == memproxy.EventChainBreak:
		e.SeverityID = 5
	case t == memproxy.EventIntegrity && len(r.Reasons) == 0: // the memory is as recorded again
		e.ActivityID, e.ActivityName, e.SeverityID, e.IsAlert = 3, "Close", 1, false
	}
	e.FindingInfo = &findingInfo{
		UID: e.Metadata.UID, Title: strings.ReplaceAll(r.Type, "_", " "), Desc: r.Detail, Types: []string{r.Type},
		CreatedTime: e.Time, Attacks: e.Attacks,
	}
	e.Message = e.FindingInfo.Title
	if r.Principal != nil {
		e.Message += " by " + r.Principal.ID
		e.Resources = append(e.Resources, resource{UID: r.Principal.ID, Name: r.Principal.ID, Type: "principal"})
	}
	if op := r.Operation; op != nil {
		if r.Type == string(memproxy.EventIntegrity) && len(op.Targets) == 1 { // the same for what closes it
			e.FindingInfo.UID = r.Type + ":" + op.Backend + ":" + op.Targets[0]
		}
		for _, id := range op.Targets {
			e.Resources = append(e.Resources, resource{UID: id, Type: "memory"})
		}
	}
}

func unmappedMembers(r *verify.Record) unmapped {
	u := unmapped{
		Trace: r.Trace, ContentSHA256: r.ContentSHA256, Degraded: r.Degraded, Unsafe: r.Unsafe, KeptFrom: r.KeptFrom,
		Confidence: r.Confidence, Budget: r.Budget, Part: r.Part, Review: r.Review, Versions: r.Versions,
	}
	if r.ShadowVerdict != r.Verdict {
		u.ShadowVerdict = r.ShadowVerdict
	}
	if p := r.Principal; p != nil {
		u.Trust, u.Method = p.Trust, p.Method
	}
	if o := r.Outcome; o != nil {
		u.Filtered, u.Cancelled, u.Ended = o.Filtered, o.Cancelled, o.Ended
	}
	if op := r.Operation; op != nil {
		u.Items, u.Scope = op.Items, op.Scope
	}
	return u
}
