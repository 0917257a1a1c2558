package cedar

import (
	"math"
	"reflect"
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/ast"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
)

// maxAnswers bounds the answers that are kept, about a kilobyte each.
const maxAnswers = 2048

// question is what an answer is kept under: who asks for what, and as much of the
// facts as the compiled policies can tell apart.
type question struct {
	caller
	facts
}

// sight is what a set of policies can see of a context. What none of them reads
// makes no difference, and a number that is only compared with literals matters by
// where it is among them. Whatever else is done with an attribute, it is seen
// exactly; a context that is used whole is seen whole.
type sight struct {
	whole  bool
	exact  map[string]bool
	bounds map[string][]int64          // in order; a number is as large as how many it has reached
	blur   []func(facts reflect.Value) // what makes facts that look the same equal
}

// see adds what a policy can see.
func (s *sight) see(p *xast.Policy) {
	for _, c := range p.Conditions {
		xast.Inspect(xast.NewNode(c.Body), s.node)
	}
}

// node looks at one node, and reports whether what is below it is to be looked at.
func (s *sight) node(n xast.IsNode) bool {
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

// compared notes the bounds that a comparison of an attribute with a literal
// draws: whether it is less, equal or more.
func (s *sight) compared(n xast.BinaryNode) bool {
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

// attribute is the name of an attribute of the context, if a node is one.
func attribute(n xast.IsNode) (string, bool) {
	a, is := n.(xast.NodeTypeAccess)
	if !is {
		return "", false
	}
	v, is := a.Arg.(xast.NodeTypeVariable)
	return string(a.Value), is && v.Name == "context"
}

// sightOf is what any of the policies can see.
func sightOf(rules map[cedar.PolicyID]*rule) *sight {
	s := &sight{exact: map[string]bool{}, bounds: map[string][]int64{}}
	for _, r := range rules {
		s.see((*xast.Policy)((*ast.Policy)(r.policy.AST())))
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

// of is what can be seen of facts.
func (s *sight) of(f facts) facts {
	v := reflect.ValueOf(&f).Elem()
	for _, blur := range s.blur {
		blur(v)
	}
	return f
}

// reached is how many of the bounds a number has reached.
func reached(bounds []int64, v int64) int64 {
	n, found := slices.BinarySearch(bounds, v)
	if found {
		n++
	}
	return int64(n)
}
