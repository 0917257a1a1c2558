package spelling

// UUIDLen is the length of a UUID with its dashes.
const UUIDLen = 36

// UUID reports whether a text has the form of a UUID (RFC 9562), in any letter case.
// The backends' ids have this form.
func UUID(s string) bool {
	if len(s) != UUIDLen {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
	}
	return true
}
