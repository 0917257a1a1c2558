package jsondoc_test

import "testing"

// Conversions of values to bool and int by pydantic 2.11, as the real servers answered.
// A value that it refuses may be converted to anything.
//
// Proves EDGE-13.
func TestWhatPythonConverts(t *testing.T) {
	for src, want := range map[string]bool{
		`true`: true, `1`: true, `1.0`: true, `"1"`: true, `"true"`: true, `"TRUE"`: true, `"t"`: true, `"Yes"`: true, `"y"`: true, `"on"`: true, `2`: true, `[]`: true, `"maybe"`: true,
		`false`: false, `0`: false, `0.0`: false, `"0"`: false, `"False"`: false, `"f"`: false, `"no"`: false, `"N"`: false, `"off"`: false, `null`: false,
	} {
		doc := parse(t, src)
		if doc.LaxTrue(doc.Root) != want {
			t.Errorf("%s: %v", src, !want)
		}
	}
	for src, want := range map[string]int64{`5`: 5, `-5`: -5, `5.0`: 5, `5e3`: 5000, `"5"`: 5, `" 5 "`: 5, `"5.0"`: 5, `9007199254740993`: 9007199254740993} {
		doc := parse(t, src)
		if n, ok := doc.Int(doc.Root); !ok || n != want {
			t.Errorf("%s: %d %v", src, n, ok)
		}
	}
	for _, src := range []string{`5.5`, `"x"`, `""`, `1e30`, `null`, `[5]`, `true`} {
		doc := parse(t, src)
		if n, ok := doc.Int(doc.Root); ok {
			t.Errorf("%s: %d", src, n)
		}
	}
}
