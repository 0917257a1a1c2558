package memproxy

// An Attribution is one place in a payload that says of its content what
// readers would believe and nobody has checked: who said it, in what role, or
// that somebody vouches for it.
type Attribution struct {
	Pointer string
	Kind    AttributionKind
	// Values are the words that stand there. Legible is false where something
	// else stands there than words: it then claims anything.
	Values  []string
	Legible bool
	// Instead is what takes the place of a member that cannot be left out, "" if
	// it can.
	Instead string
	// Removed is set by the gate; the adapter takes the member out.
	Removed bool
}

// AttributionKind is what an attribution claims.
type AttributionKind string

// The kinds of attribution.
const (
	AttributesAuthor AttributionKind = "author" // who said or wrote it, by name or by role
	AttributesStatus AttributionKind = "status" // that it was checked, or is to be trusted
)
