package mem0

// Elements is how many elements are cached.
func (a *Adapter) Elements() int { return a.elements.Len() }
