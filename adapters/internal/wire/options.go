package wire

import (
	"cmp"
	"errors"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Options configure an adapter. The zero value is the documented default.
type Options struct {
	// ConfidenceKeys are the metadata keys that claim a confidence from 0 to 1.
	ConfidenceKeys []string
	// FieldKey is the metadata key that names the governed field of a Mem0 memory. The values
	// of category and categories are governed fields as well. Letta's are the labels of blocks.
	FieldKey string
	// Sources are the tiers of the names that the metadata key source claims.
	// Nil is memproxy.DefaultSourceNames.
	Sources memproxy.SourceNames
	// MaxDepth bounds the nesting of requests. Answers have a higher bound of their
	// own.
	MaxDepth int
	// Now is the clock for waiting times; nil is time.Now.
	Now func() time.Time
}

// Checked returns the options with the defaults filled in. It refuses unusable metadata keys.
func (o Options) Checked() (Options, error) {
	if o.Sources == nil {
		o.Sources = memproxy.DefaultSourceNames()
	}
	if o.ConfidenceKeys == nil {
		o.ConfidenceKeys = []string{"confidence", "importance"}
	}
	o.FieldKey = cmp.Or(o.FieldKey, "field")
	for _, k := range append([]string{o.FieldKey}, o.ConfidenceKeys...) {
		if k == "" || memproxy.Reserved(k) {
			return o, errors.New("adapters: a metadata key is empty or begins with " + memproxy.StampPrefix)
		}
	}
	o.MaxDepth = cmp.Or(o.MaxDepth, jsondoc.DefaultRequestDepth)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o, nil
}
