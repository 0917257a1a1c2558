package compensate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
)

// snapshot is the memory of the run's agents at one time.
type snapshot struct {
	Agents []*agent          `json:"agents"`
	Blocks map[string]*block `json:"blocks"`
	// Running are the runs that were active at the first snapshot. The RunDiff does not
	// wait for them: other requests started them, or a crash left them.
	Running []string `json:"running,omitempty"`
	// Marks are the newest ids in the server's lists at the first snapshot.
	Marks map[string][]string `json:"marks,omitempty"`

	newIDs []string // newer ids in these lists
}

type agent struct {
	ID     string   `json:"id"`
	Blocks []string `json:"blocks"` // attached, by id
	// Passages are the newest passages of its archive, newest first.
	Passages []passage `json:"passages"`
	// Whole is set if the archive has no other passages.
	Whole bool `json:"whole,omitempty"`
	// Archives are the ids of its archives; nil if the server does not report them.
	Archives []string `json:"archives"`
	Gone     bool     `json:"gone,omitempty"`

	truncated bool // there are more new passages than were read
}

type block struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Value       string `json:"value"`
	Description string `json:"description"`

	stamp *memproxy.Stamp
}

type passage struct {
	ID      string   `json:"id"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags"`
	Created string   `json:"created_at"`
	Archive string   `json:"archive_id,omitempty"`
}

func (s *snapshot) agent(id string) *agent {
	for _, a := range s.Agents {
		if a.ID == id {
			return a
		}
	}
	return nil
}

func (a *agent) passage(id string) *passage {
	for i := range a.Passages {
		if a.Passages[i].ID == id {
			return &a.Passages[i]
		}
	}
	return nil
}

// oldest returns the oldest passage that was read, or nil.
func (a *agent) oldest() *passage {
	if len(a.Passages) == 0 {
		return nil
	}
	return &a.Passages[len(a.Passages)-1]
}

// parseTime parses the server's times. Those without a zone are in UTC.
func parseTime(s string) time.Time {
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

// contentHash returns a hash of all texts of a block that the model reads.
func (b *block) contentHash() string {
	return memproxy.Hash(fmt.Sprintf("%q %q %q", b.Label, b.Value, b.Description))
}

type storedDiff struct {
	Options Options   `json:"options"`
	Base    *snapshot `json:"base"`
}

const maxBaseline = 16 << 20

// MarshalBaseline implements memproxy.RunDiff.
func (d *RunDiff) MarshalBaseline() ([]byte, error) {
	b, err := json.Marshal(storedDiff{d.opt, d.base})
	if err == nil && len(b) > maxBaseline {
		err = errors.New("letta: the snapshot of the agents' memory exceeds the size limit")
	}
	return b, err
}

// Restore restores a RunDiff from its stored form.
func Restore(raw []byte, clock func() time.Time) (memproxy.RunDiff, error) {
	var k storedDiff
	if err := json.Unmarshal(raw, &k); err != nil {
		return nil, err
	}
	if k.Base == nil || k.Base.Blocks == nil || k.Options.Prefix == "" {
		return nil, errors.New("letta: the stored state is not a memory snapshot")
	}
	for _, a := range k.Base.Agents {
		if a == nil || slices.ContainsFunc(a.Blocks, func(id string) bool { return k.Base.Blocks[id] == nil }) {
			return nil, errors.New("letta: the stored memory snapshot is incomplete")
		}
	}
	return &RunDiff{opt: k.Options, base: k.Base, clock: clock, reopened: true}, nil
}
