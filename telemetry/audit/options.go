package audit

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"os"
	"time"

	"github.com/memproxy/memproxy"
)

// The defaults of Options.
const (
	// DefaultCheckpointEvery bounds how long a durable record may wait for a signed
	// checkpoint. Each checkpoint makes and removes several files, which costs ext4 more
	// the more of them were removed in the last minute.
	DefaultCheckpointEvery = time.Second
	// DefaultMaxQueue bounds the events that wait for the disk.
	DefaultMaxQueue = 8192
	// DefaultAsyncDelay bounds how long an asynchronous event waits for other events.
	DefaultAsyncDelay = 5 * time.Millisecond
)

// Options configure a log. Dir, Key and Origin are required.
type Options struct {
	// Dir is the directory of the log, used for nothing else. It is created if missing.
	Dir string
	// Key signs checkpoints. It must not change during the life of a log.
	Key ed25519.PrivateKey
	// Origin names the log and the key in its signatures. It must be unique to the
	// installation ("memproxy/pod-7"), without spaces and plus signs.
	Origin string

	// Clock returns the time of append. Nil is time.Now.
	Clock func() time.Time
	// Sync makes a file durable. Nil is (*os.File).Sync, and fdatasync for commits where
	// available.
	Sync func(*os.File) error
	// CheckpointEvery is the time between two checkpoints, and so how long records may wait
	// for a signature. The first records after a pause wait a tenth of it, and a burst that
	// fills half of the room for unsigned records does not wait. Zero is the default.
	CheckpointEvery time.Duration
	// MaxQueue bounds the events that wait for the disk. Zero is the default.
	MaxQueue int
	// AsyncDelay bounds how long an event of RecordAsync waits to share another's fsync.
	// Zero is the default.
	AsyncDelay time.Duration
	// Unsafe lists the settings that weaken production. Every record contains them.
	Unsafe []string
	// Reserve is the size to which journals are preallocated, in bytes, so that commits do
	// not grow the file. A bundle of 256 records takes 150 to 300 KB. Zero disables it.
	Reserve int64
	// Earlier, if set, states that the directory had a log before. It is the detail of the
	// first record of a new log, of the type EventRepair.
	Earlier string
	// OnRecord, if set, is called once for each durable record, in order, after its caller
	// was released. It must not block, change the record, or keep the event.
	OnRecord func(index uint64, event *memproxy.Event, record []byte)

	commit func(*os.File) error
}

func (o *Options) validate() error {
	if o.Dir == "" {
		return errors.New("audit: no directory")
	}
	if len(o.Key) != ed25519.PrivateKeySize {
		return errors.New("audit: no Ed25519 key")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.commit = o.Sync
	if o.Sync == nil {
		o.Sync, o.commit = (*os.File).Sync, datasync
	}
	o.CheckpointEvery = cmp.Or(o.CheckpointEvery, DefaultCheckpointEvery)
	o.MaxQueue = cmp.Or(max(o.MaxQueue, 0), DefaultMaxQueue)
	o.AsyncDelay = cmp.Or(o.AsyncDelay, DefaultAsyncDelay)
	return nil
}
