package config

// Intake bounds what callers may cost before and while they are served. The
// defaults suit a sidecar of 256 MiB.
type Intake struct {
	Connections int      `yaml:"connections,omitempty" doc:"connections of one listener; over it, those on which no caller was accepted are closed for newcomers, the oldest first, then idle ones" default:"2048" min:"1" loose:"up"`
	PerAddress  int      `yaml:"connections_per_address,omitempty" doc:"of them, connections of one client address, a quarter of which one caller has to itself" default:"three quarters of connections" min:"1" loose:"up"`
	InFlight    int64    `yaml:"in_flight,omitempty" doc:"bytes that bodies and answers of one backend's listener may take at once, half of them for holding, half for ruling on them; large ones leave a quarter free" default:"67108864" min:"65536" loose:"up"`
	OneInFlight int64    `yaml:"in_flight_per_address,omitempty" doc:"of them, bytes of one client address; one caller there gets three quarters" default:"three quarters of in_flight, 50331648 at most" min:"65536" loose:"up"`
	Write       Duration `yaml:"write,omitempty" doc:"how long a client may take nothing of what is written to it" default:"30s" min:"1ms" loose:"up"`
	Rejections  *int     `yaml:"rejections,omitempty" doc:"rejected requests a minute of one address, or of one caller at it, that are recorded one by one; more are answered 429 and counted; 0 records all" default:"300" min:"0" loose:"-"`
}

// RejectionLimit is Rejections as the gate takes it: negative for no limit.
func (l *Intake) RejectionLimit() int {
	if n := *l.Rejections; n > 0 {
		return n
	}
	return -1
}
