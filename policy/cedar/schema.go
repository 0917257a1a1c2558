package cedar

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cedar-policy/cedar-go"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/memproxy/memproxy/policy"
)

// checked is a schema that every question can be put to.
type checked struct {
	validate *validate.Validator
	files    map[string]cedar.PolicyList // by their texts, files that it is known to admit; nobody changes what is in them
}

// shipped is the schema of the built-in bundle with the policies beside it. Nearly
// every bundle has both, and they are the same as long as a process runs.
var shipped = sync.OnceValues(func() (*checked, error) {
	b := policy.Builtin()
	c, err := check(b.Schema)
	if err != nil {
		return nil, err
	}
	for _, src := range b.Policies {
		if list, admitted := c.admits(src); admitted {
			c.files[string(src.Text)] = list
		}
	}
	return c, nil
})

// checkedBy checks a schema, unless it is the built-in one, which is checked once.
func checkedBy(src policy.Source) (*checked, error) {
	if own := policy.Builtin().Schema; own.Name == src.Name && bytes.Equal(own.Text, src.Text) {
		return shipped()
	}
	return check(src)
}

func check(src policy.Source) (*checked, error) {
	var sch schema.Schema
	sch.SetFilename(src.Name)
	if err := sch.UnmarshalCedar(src.Text); err != nil {
		return nil, atLine(src.Name, err)
	}
	resolved, err := sch.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	c := &checked{validate.New(resolved), map[string]cedar.PolicyList{}}
	if err := c.fits(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return c, nil
}

// admits returns the policies of a file, and whether the schema admits them all.
func (c *checked) admits(src policy.Source) (cedar.PolicyList, bool) {
	list, err := cedar.NewPolicyListFromBytes(src.Name, src.Text)
	if err != nil {
		return nil, false
	}
	for _, pol := range list {
		if c.validate.Policy("", (*xast.Policy)(pol.AST())) != nil {
			return nil, false
		}
	}
	return list, true
}
