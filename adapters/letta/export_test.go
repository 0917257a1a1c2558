package letta

// NamesObject reports whether a parameter of the table's paths names an object by its id.
func NamesObject(param string) bool { return paramKind(param) != "" }

// Bodied reports whether the route's row reads a body, and in which format.
func (a *Adapter) Bodied(id string) (json, form bool) {
	switch a.Row(id).shape {
	case opaque, bare:
		return false, false
	case upload:
		return false, true
	}
	return true, false
}
