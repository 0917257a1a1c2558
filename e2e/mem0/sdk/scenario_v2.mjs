// The previous TypeScript SDK (mem0ai 2.x): the /v1 routes, and /v2 on request.
import { FACTS, Run, UNKNOWN_ID, load, options } from "./lib/run.mjs";

const { MemoryClient } = load("mem0ai-v2");
const given = options();
const run = new Run(given);
const client = new MemoryClient({ apiKey: given.key, host: given.base });
const user_id = `carol-${given.suffix}`;
const filters = { user_id };
const v2 = { api_version: "v2" };
const said = (content) => [{ role: "user", content }];

await run.step("ping", () => client.ping());

// ---- add
const queued = await run.step("add_infer", () =>
  client.add(said("I live in Lisbon\nI am allergic to peanuts"), { user_id, metadata: { source: "chat" } }),
);
await run.step("event_of_add", () => run.finished(queued[0].event_id));
const wrapped = await run.step("add_infer_v11", () =>
  client.add(said("My bicycle is red"), { user_id, output_format: "v1.1", ...v2 }),
);
await run.step("event_of_add_v11", () => run.finished(wrapped.results[0].event_id));
await run.step("add_infer_synchronous", () =>
  client.add(said("My sister studies botany"), { user_id, async_mode: false }),
);
const ids = [];
for (const [number, fact] of FACTS.entries()) {
  const answer = await run.step(`add_verbatim_${number}`, () =>
    client.add(said(fact), { user_id, infer: false, metadata: { number } }),
  );
  ids.push(answer[0].id);
}
await run.step("add_for_agent", () =>
  client.add(said("Agents get the same treatment"), { agent_id: `bot2-${given.suffix}`, infer: false }),
);

// ---- read
await run.step("search_v1", () => client.search("violin orchestra", { user_id, limit: 2 }));
await run.step("search_v1_wrapped", () =>
  client.search("violin orchestra", { user_id, top_k: 1, output_format: "v1.1" }),
);
await run.step("search_v2", () => client.search("archived invoices years", { filters, ...v2 }));
await run.step("list_v1", () => client.getAll({ user_id }));
let page = 1;
let listed;
do {
  listed = await run.step(`list_v1_page_${page}`, () => client.getAll({ user_id, page, page_size: 5 }));
  if (listed.next) await run.step(`next_of_v1_page_${page}`, () => run.raw("GET", listed.next));
  page++;
} while (listed.next);
await run.step("list_v2", () => client.getAll({ filters, ...v2 }));
for (page = 1; page <= 2; page++) {
  listed = await run.step(`list_v2_page_${page}`, () => client.getAll({ filters, page, page_size: 6, ...v2 }));
}
await run.step("previous_of_v2_page_2", () => run.raw("POST", listed.previous, { filters }));
await run.step("get", () => client.get(ids[4]));

// ---- change
await run.step("update", () => client.update(ids[4], { text: "Bob plays viola", metadata: { number: 40 } }));
await run.step("get_updated", () => client.get(ids[4]));
await run.step("history", () => client.history(ids[4]));
await run.step("batch_update", () =>
  client.batchUpdate([
    { memoryId: ids[0], text: "The deployment key rotates daily" },
    { memoryId: ids[1], text: "Payments run in the Paris region" },
  ]),
);
await run.step("feedback", () => client.feedback({ memory_id: ids[0], feedback: "NEGATIVE" }));
await run.step("users", () => client.users(), (answer) => run.ours(answer.results));

// ---- errors
await run.fails("get_unknown", () => client.get(UNKNOWN_ID));
await run.fails("get_not_an_id", () => client.get("not-an-id"));
await run.fails("update_unknown", () => client.update(UNKNOWN_ID, { text: "x" }));
await run.fails("delete_unknown", () => client.delete(UNKNOWN_ID));
await run.fails("list_without_id", () => client.getAll({}));
await run.fails("list_v2_without_filters", () => client.getAll({ ...v2 }));
await run.fails("unknown_filter", () => client.getAll({ filters: { colour: "red" }, ...v2 }));

if (given.withAdmin) {
  await run.step("project_get", () => client.getProject({ fields: ["custom_instructions"] }));
}

// ---- delete
await run.step("batch_delete", () => client.batchDelete([ids[0], ids[1]]));
await run.step("delete", () => client.delete(ids[4]));
await run.fails("get_deleted", () => client.get(ids[4]));
const deletion = await run.step("delete_all", () => client.deleteAll({ user_id }));
await run.step("event_of_delete_all", () => run.finished(deletion.event_id));
// This one goes out through axios and not fetch, as the only call of this SDK.
await run.step("delete_agent", () => client.deleteUsers({ agent_id: `bot2-${given.suffix}` }));
await run.step("list_after_delete", () => client.getAll({ filters, ...v2 }));
