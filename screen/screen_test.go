package screen

import "testing"

// The built-in pack loads, which runs its regression cases.
func TestTheBuiltInPackLoads(t *testing.T) {
	if v := Default().Version(); v == "" {
		t.Fatal("no version")
	}
}
