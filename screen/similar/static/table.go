package static

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Bounds of a table.
const (
	maxHeader = 1 << 20
	maxDim    = 4096
	maxRows   = 1 << 20
)

// Table holds one vector for each token.
type Table struct {
	Rows, Dim int
	values    []float32
}

// Row is the vector of token id, which is in 0..Rows-1. It must not be
// changed.
func (t *Table) Row(id int) []float32 { return t.values[id*t.Dim : (id+1)*t.Dim] }

// tensor is an entry of a safetensors header.
type tensor struct {
	Type    string    `json:"dtype"`
	Shape   []int64   `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// widths are the number formats that are read, by bytes of one number.
var widths = map[string]uint64{"F32": 4, "F16": 2, "BF16": 2}

// ParseTable reads a safetensors file: eight bytes of length, a JSON header of
// that length, and the numbers, all little-endian.
func ParseTable(raw []byte) (*Table, error) {
	if len(raw) < 8 {
		return nil, errors.New("static: table: shorter than its header's length")
	}
	n := binary.LittleEndian.Uint64(raw)
	if n > maxHeader || n > uint64(len(raw)-8) {
		return nil, fmt.Errorf("static: table: a header of %d bytes in a file of %d", n, len(raw))
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(raw[8:8+n], &header); err != nil {
		return nil, errors.New("static: table: the header is not a JSON object")
	}
	data := raw[8+n:]
	tensors := map[string]tensor{}
	for name, entry := range header {
		if name == "__metadata__" {
			continue
		}
		var t tensor
		if err := json.Unmarshal(entry, &t); err != nil {
			return nil, errors.New("static: table: an entry of the header is no tensor")
		}
		tensors[name] = t
	}
	name, err := matrix(tensors)
	if err != nil {
		return nil, err
	}
	values, err := numbers(tensors[name], data)
	if err != nil {
		return nil, err
	}
	table := &Table{Rows: int(tensors[name].Shape[0]), Dim: int(tensors[name].Shape[1]), values: values}
	if w, ok := tensors["weights"]; ok && len(w.Shape) == 1 {
		return table, table.weigh(w, data)
	}
	return table, nil
}

// matrix names the tensor that holds the vectors.
func matrix(tensors map[string]tensor) (string, error) {
	var found []string
	for name, t := range tensors {
		if len(t.Shape) == 2 {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	switch {
	case slices.Contains(found, "embeddings"):
		return "embeddings", nil
	case len(found) == 1:
		return found[0], nil
	}
	return "", fmt.Errorf("static: table: %d tensors of two dimensions and none is called embeddings", len(found))
}

// numbers reads the values of a tensor, which must be finite.
func numbers(t tensor, data []byte) ([]float32, error) {
	width := widths[t.Type]
	if width == 0 {
		return nil, errors.New("static: table: a tensor is not of F32, F16 or BF16")
	}
	count := uint64(1)
	for i, d := range t.Shape {
		if d < 1 || i == 0 && d > maxRows || i > 0 && d > maxDim {
			return nil, fmt.Errorf("static: table: a tensor with a side of %d", d)
		}
		count *= uint64(d)
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if from > to || to > uint64(len(data)) || to-from != count*width {
		return nil, fmt.Errorf("static: table: a tensor of %d numbers lies at %d:%d of %d bytes", count, from, to, len(data))
	}
	out := make([]float32, count)
	for i := range out {
		at := data[from+uint64(i)*width:]
		switch t.Type {
		case "F32":
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(at))
		case "BF16":
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(at)) << 16)
		case "F16":
			out[i] = half(binary.LittleEndian.Uint16(at))
		}
		if f := float64(out[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("static: table: a number is not finite")
		}
	}
	return out, nil
}

// weigh multiplies each row by its weight.
func (t *Table) weigh(w tensor, data []byte) error {
	weights, err := numbers(w, data)
	if err != nil {
		return err
	}
	if len(weights) != t.Rows {
		return fmt.Errorf("static: table: %d weights for %d rows", len(weights), t.Rows)
	}
	for i, f := range weights {
		for k, v := range t.Row(i) {
			t.Row(i)[k] = v * f
		}
	}
	return nil
}

// half widens an IEEE 754 half-precision number.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0: // zero, or subnormal: frac × 2⁻²⁴
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}
