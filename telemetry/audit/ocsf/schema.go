package ocsf

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// SchemaVersion is the version of OCSF that the events follow.
const SchemaVersion = "1.6.0"

// The OCSF classes of the events.
const (
	classFinding   = 2004 // Detection Finding
	classLifecycle = 6002 // Application Lifecycle
	classAPI       = 6003 // API Activity
)

// event is the union of the members that the three classes use here, in a readable order.
type event struct {
	ClassUID     int    `json:"class_uid"`
	ClassName    string `json:"class_name"`
	CategoryUID  int    `json:"category_uid"`
	CategoryName string `json:"category_name"`
	ActivityID   int    `json:"activity_id"`
	ActivityName string `json:"activity_name"`
	TypeUID      int    `json:"type_uid"`
	TypeName     string `json:"type_name"`
	Time         int64  `json:"time"` // ms since 1970
	SeverityID   int    `json:"severity_id"`
	Severity     string `json:"severity"`
	Message      string `json:"message,omitzero"`

	StatusID     int    `json:"status_id,omitzero"`
	Status       string `json:"status,omitzero"`
	StatusCode   string `json:"status_code,omitzero"`
	StatusDetail string `json:"status_detail,omitzero"`

	// Security Control profile.
	ActionID       int             `json:"action_id,omitzero"`
	Action         string          `json:"action,omitzero"`
	DispositionID  int             `json:"disposition_id,omitzero"`
	Disposition    string          `json:"disposition,omitzero"`
	IsAlert        bool            `json:"is_alert,omitzero"`
	Attacks        []attack        `json:"attacks,omitempty"`
	Authorizations []authorization `json:"authorizations,omitempty"`
	Policy         *policy         `json:"policy,omitzero"`

	// API Activity.
	Actor        *actor       `json:"actor,omitzero"`
	API          *api         `json:"api,omitzero"`
	SrcEndpoint  *entity      `json:"src_endpoint,omitzero"`
	HTTPResponse *apiResponse `json:"http_response,omitzero"`
	Resources    []resource   `json:"resources,omitempty"`

	// Application Lifecycle.
	App *product `json:"app,omitzero"`

	// Detection Finding.
	FindingInfo *findingInfo `json:"finding_info,omitzero"`

	Metadata    metadata     `json:"metadata"`
	RawDataHash *fingerprint `json:"raw_data_hash,omitzero"`
	Unmapped    unmapped     `json:"unmapped,omitempty"`
}

type metadata struct {
	Version        string   `json:"version"`
	Product        product  `json:"product"`
	Profiles       []string `json:"profiles,omitempty"`
	UID            string   `json:"uid"`
	Sequence       uint64   `json:"sequence"`
	CorrelationUID string   `json:"correlation_uid,omitzero"`
	EventCode      string   `json:"event_code"`
	LogName        string   `json:"log_name,omitzero"`
	LoggedTime     int64    `json:"logged_time"`
	Labels         []string `json:"labels,omitempty"`
}

type product struct {
	Name       string `json:"name"`
	VendorName string `json:"vendor_name"`
}

type actor struct {
	User    user    `json:"user"`
	Session *entity `json:"session,omitzero"`
}

type user struct {
	UID    string  `json:"uid,omitzero"`
	Name   string  `json:"name"`
	TypeID int     `json:"type_id"`
	Type   string  `json:"type,omitzero"`
	Org    *entity `json:"org,omitzero"`
}

// entity is an object that is known only by a name or an id.
type entity struct {
	UID  string `json:"uid,omitzero"`
	Name string `json:"name,omitzero"`
}

type api struct {
	Operation string       `json:"operation"`
	Service   *entity      `json:"service,omitzero"`
	Request   *entity      `json:"request,omitzero"`
	Response  *apiResponse `json:"response,omitzero"`
}

type apiResponse struct {
	Code         int    `json:"code,omitzero"`
	Error        string `json:"error,omitzero"`
	ErrorMessage string `json:"error_message,omitzero"`
}

type resource struct {
	UID  string `json:"uid,omitzero"`
	Name string `json:"name,omitzero"`
	Type string `json:"type"`
}

type attack struct {
	Technique    *entity `json:"technique,omitzero"`
	SubTechnique *entity `json:"sub_technique,omitzero"`
}

type authorization struct {
	Decision string `json:"decision"`
	Policy   policy `json:"policy"`
}

type policy struct {
	Name    string `json:"name"`
	Version string `json:"version,omitzero"`
}

type findingInfo struct {
	UID         string   `json:"uid"`
	Title       string   `json:"title"`
	Desc        string   `json:"desc,omitzero"`
	Types       []string `json:"types"`
	CreatedTime int64    `json:"created_time"`
	Attacks     []attack `json:"attacks,omitempty"`
}

type fingerprint struct {
	AlgorithmID int    `json:"algorithm_id"`
	Algorithm   string `json:"algorithm"`
	Value       string `json:"value"`
}

// unmapped has the members that OCSF does not define, under their names in the record.
type unmapped struct {
	Trace         string                   `json:"trace,omitzero"`
	ShadowVerdict string                   `json:"would,omitzero"`
	Trust         string                   `json:"principal_trust,omitzero"`
	Method        string                   `json:"principal_method,omitzero"`
	Scope         memproxy.Scope           `json:"scope,omitzero"`
	Items         int                      `json:"items,omitzero"`
	ContentSHA256 string                   `json:"content_sha256,omitzero"`
	Confidence    *verify.Confidence       `json:"confidence,omitzero"`
	Budget        []verify.BudgetLine      `json:"budget,omitempty"`
	Degraded      bool                     `json:"degraded,omitzero"`
	Unsafe        []string                 `json:"unsafe,omitzero"`
	Filtered      int                      `json:"filtered,omitzero"`
	Cancelled     bool                     `json:"cancelled,omitzero"`
	Ended         string                   `json:"ended,omitzero"`
	Part          *verify.Part             `json:"part,omitzero"`
	KeptFrom      *uint64                  `json:"kept_from,omitzero"`
	Review        *memproxy.Act            `json:"review,omitzero"`
	Versions      []memproxy.VersionChange `json:"versions,omitempty"`
}
