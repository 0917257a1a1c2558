package mem0_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves EDGE-3, EDGE-13: a request that derives from many memories, or changes many,
// is narrowed only by the places where its route looks for an owner; the backend
// ignores all others. The same applies to counts and relations in a list.
func TestPlacesThatNarrow(t *testing.T) {
	a := adapter(t)
	for _, tc := range []struct {
		target, body string
		want         bool
	}{
		{"POST /v1/summary/", `{"filters":{"user_id":"ann"}}`, true},
		{"POST /v1/summary/", `{"filters":{"AND":[{"AND":[{"app_id":{"in":["shop"]}}]}]}}`, true},
		{"POST /v1/summary/", `{"user_id":"ann"}`, false},
		{"POST /v1/summary/", `{"user_id":"ann","filters":{}}`, false},
		{"POST /v1/summary/", `{"entity_type":"user","entity_id":"ann"}`, false},
		{"POST /v1/summary/?user_id=ann", `{}`, false},
		{"POST /v1/summary/", `{"filters":{"session_id":"r"}}`, false},
		{"POST /v1/summary/", `{"filters":{"$and":[{"user_id":"ann"}]}}`, false},
		{"POST /v1/summary/", `{"filters":{"AND":{"user_id":"ann"}}}`, false},
		{"POST /v1/summary/", `{"filters":{"user_id":{"$in":["ann"]}}}`, false},
		{"POST /v1/exports/", `{"schema":{},"user_id":"ann"}`, false},
		{"POST /v1/exports/get/", `{"filters":{"user_id":"ann"}}`, true},
		{"GET /v2/entities/user/ann/profile/", "", true},
		{"GET /v1/entities/filters/?user_id=ann", "", false},
		{"GET /v1/stats/?user_id=ann", "", false},
		{"GET /v2/profiles/jobs/1/?user_id=ann", "", false},
		{"DELETE /v1/memories/?user_id=ann", "", true},
		{"DELETE /v1/memories/", `{"user_id":"ann"}`, false},
		{"DELETE /v1/memories/?session_id=r", "", false},
		{"DELETE /memories?user_id=ann", "", true},
		{"DELETE /memories?app_id=shop", "", false},
		{"DELETE /entities/user/ann", "", true},
		{"DELETE /entities/app/shop?user_id=ann", "", false},
		{"DELETE /v2/entities/app/shop/", "", true},
		{"DELETE /v1/entities/user/7/?user_id=ann", "", false},
		{"POST /reset", `{"user_id":"ann"}`, false},
		{"POST /v3/memories/", `{"user_id":"ann"}`, false},
		{"POST /v3/memories/?user_id=ann", `{}`, false},
		{"POST /v2/memories/", `{"filters":{"AND":[{"user_id":"ann"}]}}`, true},
		{"POST /v2/memories/search/", `{"query":"tea","user_id":"ann"}`, false},
		{"POST /v2/memories/search/", `{"query":"tea","filters":{"user_id":"ann"}}`, true},
		{"POST /v1/memories/search/", `{"query":"tea","user_id":"ann"}`, true},
		{"POST /v1/memories/search/", `{"query":"tea","filters":{"user_id":"ann"}}`, false},
		{"POST /search", `{"query":"tea","user_id":"ann"}`, true},
		{"POST /search", `{"query":"tea","filters":{"user_id":"ann"}}`, true},
		{"POST /search", `{"query":"tea","app_id":"shop"}`, false},
		{"GET /v1/memories/events/?user_id=ann", "", false},
		{"GET /v1/events/?user_id=ann", "", false},
		{"GET /v1/entities/?user_id=ann", "", false},
		{"GET /v1/memories/user/ann/", "", true},
		{"GET /memories?user_id=ann", "", true},
		{"GET /v1/memories/?user_id=ann", "", true},
	} {
		op := decode(t, a, tc.target, tc.body)
		pins := false
		for _, c := range op.Claims {
			pins = pins || c.Pins && c.Op == memproxy.ClaimIs
		}
		expect.Equal(t, pins, tc.want, tc.target, tc.body, "narrowed is", op.Claims)
	}
}
