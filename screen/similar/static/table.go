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
	Tokens, Dim int
	values      []float32 // rows of Dim
	rows        []int     // the row of each token; nil: its own
	weights     []float32 // the factor of each token; nil: one
}

// Add adds the vector of token id, which is in 0..Tokens-1, to v.
func (t *Table) Add(v []float32, id int) {
	row, weight := id, float32(1)
	if t.rows != nil {
		row = t.rows[id]
	}
	if t.weights != nil {
		weight = t.weights[id]
	}
	for k, f := range t.values[row*t.Dim : (row+1)*t.Dim] {
		v[k] += f * weight
	}
}

// tensor is an entry of a safetensors header.
type tensor struct {
	Type    string    `json:"dtype"`
	Shape   []int64   `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

// widths are the number formats that are read, by bytes of one number. The
// scale of I8 does not matter: vectors are compared by direction.
var widths = map[string]uint64{"F32": 4, "F16": 2, "BF16": 2, "I8": 1}

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
	rows := int(tensors[name].Shape[0])
	table := &Table{Tokens: rows, Dim: int(tensors[name].Shape[1]), values: values}
	if m, ok := tensors["mapping"]; ok {
		if table.rows, err = mapping(m, data, rows); err != nil {
			return nil, err
		}
		table.Tokens = len(table.rows)
	}
	if w, ok := tensors["weights"]; ok && len(w.Shape) == 1 {
		if table.weights, err = numbers(w, data); err != nil {
			return nil, err
		}
		if len(table.weights) != table.Tokens {
			return nil, fmt.Errorf("static: table: %d weights for %d tokens", len(table.weights), table.Tokens)
		}
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
		return nil, errors.New("static: table: a tensor is not of F32, F16, BF16 or I8")
	}
	count, data, err := lies(t, width, data)
	if err != nil {
		return nil, err
	}
	out := make([]float32, count)
	for i := range out {
		at := data[uint64(i)*width:]
		switch t.Type {
		case "F32":
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(at))
		case "BF16":
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(at)) << 16)
		case "I8":
			out[i] = float32(int8(at[0]))
		case "F16":
			out[i] = half(binary.LittleEndian.Uint16(at))
		}
		if f := float64(out[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("static: table: a number is not finite")
		}
	}
	return out, nil
}

// lies returns how many numbers a tensor has and the bytes in which they lie,
// after checking that they are as many as its shape says.
func lies(t tensor, width uint64, data []byte) (uint64, []byte, error) {
	count := uint64(1)
	for i, d := range t.Shape {
		if d < 1 || i == 0 && d > maxRows || i > 0 && d > maxDim {
			return 0, nil, fmt.Errorf("static: table: a tensor with a side of %d", d)
		}
		count *= uint64(d)
	}
	from, to := t.Offsets[0], t.Offsets[1]
	if len(t.Shape) > 2 || from > to || to > uint64(len(data)) || to-from != count*width {
		return 0, nil, fmt.Errorf("static: table: a tensor of %d numbers lies at %d:%d of %d bytes", count, from, to, len(data))
	}
	return count, data[from:to], nil
}

// mapping reads the row of each token, for tables in which tokens share rows.
func mapping(t tensor, data []byte, rows int) ([]int, error) {
	width := map[string]uint64{"I64": 8, "I32": 4}[t.Type]
	if width == 0 || len(t.Shape) != 1 {
		return nil, errors.New("static: table: the mapping is no list of I64 or I32")
	}
	count, data, err := lies(t, width, data)
	if err != nil {
		return nil, err
	}
	out := make([]int, count)
	for i := range out {
		at := data[uint64(i)*width:]
		row := int64(0)
		if width == 8 {
			row = int64(binary.LittleEndian.Uint64(at))
		} else {
			row = int64(int32(binary.LittleEndian.Uint32(at)))
		}
		if row < 0 || row >= int64(rows) {
			return nil, fmt.Errorf("static: table: the mapping leads to row %d of %d", row, rows)
		}
		out[i] = int(row)
	}
	return out, nil
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
