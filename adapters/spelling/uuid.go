package spelling

import "github.com/google/uuid"

// UUIDLen is the length of a UUID with its dashes.
const UUIDLen = 36

// IsUUID reports whether a text has the form of a UUID (RFC 9562), in any letter case.
// The backends' ids have this form.
func IsUUID(s string) bool { return len(s) == UUIDLen && uuid.Validate(s) == nil }
