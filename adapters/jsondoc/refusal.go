package jsondoc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

// refusal returns the error with the reason and the position for which a body is refused. It
// parses the body again, with a decoder that reports errors.
func refusal(src []byte, maxDepth int, strict bool) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(src))
	refuse := func(code memproxy.ReasonCode, detail string) error {
		return &memproxy.Flaw{Code: code, Status: 400, Detail: detail, Pointer: string(dec.StackPointer())}
	}
	for first := true; ; first = false {
		depth := dec.StackDepth()
		if depth == 0 && !first {
			return &memproxy.Flaw{Code: memproxy.PayloadMalformed, Status: 400, Detail: "unexpected data after the JSON value"}
		}
		kind, n := dec.StackIndex(depth)
		next := dec.PeekKind()
		if name := kind == '{' && n%2 == 0; depth > maxDepth && !name && next != ']' && next != '}' {
			return refuse(memproxy.PayloadTooDeep, fmt.Sprintf("the body is nested deeper than %d levels (the backend's limits.depth)", maxDepth))
		}
		switch tok, err := dec.ReadToken(); {
		case errors.Is(err, jsontext.ErrDuplicateName):
			flaw := &memproxy.Flaw{Code: memproxy.PayloadDuplicate, Status: 400, Detail: "a key is repeated in one object"}
			if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok { // the decoder is still at the member before
				flaw.Pointer = string(at.JSONPointer)
			}
			return flaw
		case err != nil && (strings.Contains(err.Error(), "UTF-8") || strings.Contains(err.Error(), "surrogate")):
			return refuse(memproxy.PayloadEncoding, "a string is not valid Unicode")
		case err != nil:
			return refuse(memproxy.PayloadMalformed, "the body is not valid JSON")
		case strict && next == '0' && !storable(tok.String()):
			return refuse(memproxy.PayloadMalformed, "a number would be stored with another value: servers take 64-bit integers, and other numbers below 2^63 that are not too close to zero")
		case strict && next == '"' && strings.IndexByte(tok.String(), 0) >= 0:
			return refuse(memproxy.PayloadEncoding, "a string contains a NUL character, which cannot be stored")
		}
	}
}
