package config

// Intake limits the resources that callers may use. The defaults suit a sidecar with
// 256 MiB.
type Intake struct {
	Connections int      `yaml:"connections,omitempty" doc:"connections of one listener; beyond it, the oldest without an accepted caller are closed first, then idle ones" default:"2048" min:"1" loose:"up"`
	PerAddress  int      `yaml:"connections_per_address,omitempty" doc:"of those, connections of one client address; one caller gets a quarter of these" default:"three quarters of connections" min:"1" loose:"up"`
	InFlight    int64    `yaml:"in_flight,omitempty" doc:"bytes that bodies and responses of one backend's listener may take at once, half for buffering, half for processing; large ones leave a quarter free" default:"67108864" min:"65536" loose:"up"`
	OneInFlight int64    `yaml:"in_flight_per_address,omitempty" doc:"of those, bytes of one client address; one caller gets three quarters of these" default:"three quarters of in_flight, 50331648 at most" min:"65536" loose:"up"`
	Write       Duration `yaml:"write,omitempty" doc:"how long a client may not read what is written to it" default:"30s" min:"1ms" loose:"up"`
	Rejections  *int     `yaml:"rejections,omitempty" doc:"rejected requests per minute of one address, or of one caller at it, that are recorded individually; further ones are answered 429 and counted; 0: record all" default:"300" min:"0" loose:"-"`
}

// RejectionLimit is Rejections as the gate expects it: negative for no limit.
func (l *Intake) RejectionLimit() int {
	if n := *l.Rejections; n > 0 {
		return n
	}
	return -1
}
