package letta

// Params describes the parameters of the table's paths: whether they name an object, or
// why not.
func Params() map[string]struct {
	Object  bool
	Because string
} {
	out := map[string]struct {
		Object  bool
		Because string
	}{}
	for name, p := range params {
		out[name] = struct {
			Object  bool
			Because string
		}{p.kind != "", p.because}
	}
	return out
}

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
