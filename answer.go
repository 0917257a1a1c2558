package memproxy

// Pruned is an answer, or one event of a stream, without what nobody claimed.
type Pruned struct {
	// Body is what is left: the body itself where everything was claimed.
	Body []byte
	// Unclaimed is how many members and elements were left out.
	Unclaimed int
	// Names are where some of them stood, as patterns: /results/-/name. A name
	// that does not look like one is "?".
	Names []string
	// Unreadable is how many elements of lists were left out because they cannot
	// be read, and Readable the body without these alone; nil where there are
	// none.
	Unreadable int
	Readable   []byte
	// Type is the media type of the body where that is another than it was.
	Type string
}
