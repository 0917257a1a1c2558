package cedar

import (
	"fmt"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/memproxy/memproxy/policy"
)

// validSchema is a schema that accepts every question.
type validSchema struct {
	validate *validate.Validator
	files    map[string]cedar.PolicyList // files whose policies satisfy the schema, by text; shared, and must not be modified
}

// builtinSchema is the built-in schema with its policies. It is parsed once per process,
// because nearly every bundle contains both. That the policies satisfy the schema is tested
// (TestCustomSchemas).
var builtinSchema = sync.OnceValues(func() (*validSchema, error) {
	b := policy.Builtin()
	c, err := newSchema(b.Schema)
	if err != nil {
		return nil, err
	}
	for _, src := range b.Policies {
		if c.files[src.Text], err = cedar.NewPolicyListFromBytes(src.Name, []byte(src.Text)); err != nil {
			return nil, atLine(src.Name, err)
		}
	}
	return c, nil
})

// schemaOf checks a schema. The result for the built-in schema is cached.
func schemaOf(src policy.Source) (*validSchema, error) {
	if own := policy.Builtin().Schema; own == src {
		return builtinSchema()
	}
	return newSchema(src)
}

func newSchema(src policy.Source) (*validSchema, error) {
	var sch schema.Schema
	sch.SetFilename(src.Name)
	if err := sch.UnmarshalCedar([]byte(src.Text)); err != nil {
		return nil, atLine(src.Name, err)
	}
	resolved, err := sch.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	c := &validSchema{validate.New(resolved), map[string]cedar.PolicyList{}}
	if err := c.checkQuestions(); err != nil {
		return nil, fmt.Errorf("%s: %w", src.Name, err)
	}
	return c, nil
}
