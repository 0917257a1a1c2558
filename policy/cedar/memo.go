package cedar

import (
	"math"
	"reflect"
	"slices"

	"github.com/cedar-policy/cedar-go"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
)

// maxAnswers is the maximum size of the decision cache. An entry takes about a kilobyte.
const maxAnswers = 2048

// cacheKey is the key of the decision cache: the caller, and the facts that the policies
// can distinguish.
type cacheKey struct {
	caller
	facts
}

// visibility is what a set of policies can observe of a context. Attributes that no
// policy reads have no effect. Of a number that is only compared with literals, only its
// position among the literals has an effect. Any other use of an attribute makes its
// exact value observable, and using the context as a whole makes everything observable.
type visibility struct {
	whole  bool
	exact  map[string]bool
	bounds map[string][]int64          // sorted literals; a number is reduced to how many of them it has reached
	blur   []func(facts reflect.Value) // functions that map indistinguishable facts to equal ones
}

// sees reports whether the policies can observe the value of an attribute that is a text.
func (s *visibility) sees(name string) bool { return s.whole || s.exact[name] }

// node inspects one node of a policy and reports whether to descend.
func (s *visibility) node(n xast.IsNode) bool {
	switch n := n.(type) {
	case xast.NodeTypeLessThan:
		return s.compared(n.BinaryNode)
	case xast.NodeTypeLessThanOrEqual:
		return s.compared(n.BinaryNode)
	case xast.NodeTypeGreaterThan:
		return s.compared(n.BinaryNode)
	case xast.NodeTypeGreaterThanOrEqual:
		return s.compared(n.BinaryNode)
	case xast.NodeTypeEquals:
		return s.compared(n.BinaryNode)
	case xast.NodeTypeNotEquals:
		return s.compared(n.BinaryNode)
	}
	if name, is := attribute(n); is {
		s.exact[name] = true
		return false
	}
	if v, is := n.(xast.NodeTypeVariable); is && v.Name == "context" {
		s.whole = true
	}
	return true
}

// compared adds the bounds of comparing an attribute with a literal: less, equal, more.
func (s *visibility) compared(n xast.BinaryNode) bool {
	name, is := attribute(n.Left)
	literal := n.Right
	if !is {
		name, is = attribute(n.Right)
		literal = n.Left
	}
	value, number := literal.(xast.NodeValue)
	if !is || !number {
		return true
	}
	v, long := value.Value.(cedar.Long)
	if !long || v == math.MaxInt64 || attributes[name].Type != reflect.TypeFor[int64]() {
		return true
	}
	s.bounds[name] = append(s.bounds[name], int64(v), int64(v)+1)
	return false
}

func attribute(n xast.IsNode) (string, bool) {
	a, is := n.(xast.NodeTypeAccess)
	if !is {
		return "", false
	}
	v, is := a.Arg.(xast.NodeTypeVariable)
	return string(a.Value), is && v.Name == "context"
}

func visibilityOf(rules map[cedar.PolicyID]*rule) *visibility {
	s := &visibility{exact: map[string]bool{}, bounds: map[string][]int64{}}
	for _, r := range rules {
		for _, c := range (*xast.Policy)(r.policy.AST()).Conditions {
			xast.Inspect(xast.NewNode(c.Body), s.node)
		}
	}
	if s.whole {
		return s
	}
	for name, field := range attributes {
		at := field.Index[0]
		switch {
		case s.exact[name]:
		case field.Type.Kind() == reflect.Int64:
			slices.Sort(s.bounds[name])
			bounds := slices.Compact(s.bounds[name])
			s.blur = append(s.blur, func(v reflect.Value) { v.Field(at).SetInt(reached(bounds, v.Field(at).Int())) })
		default:
			s.blur = append(s.blur, func(v reflect.Value) { v.Field(at).SetZero() })
		}
	}
	return s
}

// of reduces facts to what the policies can observe.
func (s *visibility) of(f facts) facts {
	v := reflect.ValueOf(&f).Elem()
	for _, blur := range s.blur {
		blur(v)
	}
	return f
}

func reached(bounds []int64, v int64) int64 {
	n, found := slices.BinarySearch(bounds, v)
	if found {
		n++
	}
	return int64(n)
}
