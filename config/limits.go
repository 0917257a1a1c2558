package config

// Intake bounds what callers may cost before and while they are served. The
// defaults suit a sidecar of 256 MiB.
type Intake struct {
	Rejections *int `yaml:"rejections,omitempty" doc:"rejected requests a minute of one address, or of one caller at it, that are recorded one by one; more are answered 429 and counted; 0 records all" default:"300" min:"0"`
}

// rejections is the default of Intake.Rejections.
const rejections = 300

func (l *Intake) defaults() {
	if l.Rejections == nil {
		n := rejections
		l.Rejections = &n
	}
}

// RejectionLimit is Rejections as the gate takes it: negative for no limit.
func (l *Intake) RejectionLimit() int {
	if n := *l.Rejections; n > 0 {
		return n
	}
	return -1
}
