package app

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/contract"
	"github.com/memproxy/memproxy/internal/must"
)

// wordless lists the routes whose answers never contain an owner's texts, with the
// reason.
var wordless = map[string]string{
	"made of everybody's, and refused where several tenants share the backend": `
		letta.get_folder_by_name letta.get_source_id_by_name letta.get_total_storage_size letta.retrieve_metadata
		letta.get_sources_metadata letta.count_sources letta.count_agents letta.count_internal_agents letta.count_blocks
		letta.count_folders letta.count_tools letta.count_groups letta.count_identities letta.list_tags letta.cloud.templates
		mem0.v1.stats mem0.v1.entities.filters`,
	"refused: it cannot be read": `
		letta.git letta.cloud.repositories letta.cloud.repository mem0.mcp mem0.mcp.session openmemory.list openmemory.get
		openmemory.memories openmemory.apps openmemory.config openmemory.stats openmemory.backup`,
	"a row for every method: a read of it has no body, and is refused": `
		letta.zai_messages_proxy letta.anthropic_messages_proxy`,
	"nobody knows whose it is, so that with several tenants it is nobody's": `
		letta.cloud.template letta.cloud.change_template letta.cloud.pipeline letta.cloud.pipeline.write letta.cloud.feed
		letta.cloud.feed.write letta.cloud.attach_repository letta.cloud.schedule.get letta.list_deployment_entities
		letta.retrieve_batch letta.list_messages_for_batch mem0.v2.profile.job.get`,
	"numbers, names and ids, and no texts": `
		letta.list_agents_for_folder letta.get_agents_for_source letta.retrieve_usage_for_run letta.retrieve_metrics_for_run
		letta.retrieve_metrics_for_step mem0.server.entities mem0.server.requests mem0.server.providers letta.cloud.models`,
	"the installation's, for who administers it": `
		letta.sandbox.read letta.sandbox.read_variable letta.list_mcp_servers letta.list_models letta.list_embedding_models
		letta.mcp_oauth_callback letta.cloud.agent_secrets letta.cloud.agent_mcp_servers mem0.v2.profile.settings mem0.server.configuration mem0.server.keys`,
}

// Proves EDGE-13: checks the tenant matrix itself: a canary that no answer shows proves
// nothing about tenants, so each read by an owner shows the owner's canary, or is
// listed with the reason.
func TestCanariesAreSeenByTheirOwners(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, r *rig, w *contract.World, f *contract.Format, routes []contract.Route) {
		t.Helper()
		shown := 0
		root := &contract.Caller{Name: "rootacme", Header: "Authorization: Bearer " + matrixKey("rootacme"), Owner: w.Owners[1], Sees: w.Owners[:2]}
		i := slices.IndexFunc(w.Callers, func(c *contract.Caller) bool { return c.Name == "star" })
		w.Callers = []*contract.Caller{w.Callers[i], root}
		seen := map[string]string{}
		for c, err := range f.Cases(w, routes) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Class != contract.Own || c.Place != "" || c.Method != http.MethodGet || c.Route.Public {
				continue
			}
			a := must.Get(contract.Send(r.base, c.Method, c.Target, c.Body, c.Header...))(t)
			if strings.Contains(a.Body, c.Caller.Owner.Canary) {
				shown++
				seen[c.Route.ID] = "shown"
			} else if seen[c.Route.ID] != "shown" {
				seen[c.Route.ID] = a.Body
			}
		}
		reasons := map[string]string{}
		for why, ids := range wordless {
			for id := range strings.FieldsSeq(ids) {
				reasons[id] = why
			}
		}
		for id, body := range seen {
			if why := reasons[id]; (why == "") != (body == "shown") {
				t.Errorf("%s: %.90q, and the reason is %q", id, body, why)
			}
		}
		if shown < 25 {
			t.Errorf("%d answers show a canary", shown)
		}
	}
	t.Run("letta", func(t *testing.T) {
		w := matrixWorld(contract.LettaOwner, contract.LettaUnknown())
		up := httptest.NewServer(contract.NewLettaBackend(w))
		t.Cleanup(up.Close)
		r := startMatrix(t, "letta", up.URL)
		seedLetta(t, r, w)
		a := must.Get(letta.New(letta.Options{}))(t)
		check(t, r, w, contract.Letta(), tableOf(a.Table()))
	})
	t.Run("mem0", func(t *testing.T) {
		w := matrixWorld(contract.Mem0Owner, contract.Mem0Unknown())
		up := httptest.NewServer(contract.NewMem0Backend(w))
		t.Cleanup(up.Close)
		r := startMatrix(t, "mem0", up.URL)
		seedMem0(t, r, w)
		a := must.Get(mem0.New(mem0.Options{}))(t)
		check(t, r, w, contract.Mem0(), tableOf(a.Table()))
	})
}
