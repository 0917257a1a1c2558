package mem0

// Forget lets go of all elements that were read.
func (a *Adapter) Forget() { a.elements.Purge() }
