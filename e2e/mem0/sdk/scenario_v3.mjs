// The current TypeScript SDK (mem0ai 3.x): the /v3 routes.
import { FACTS, Run, UNKNOWN_ID, load, options } from "./lib/run.mjs";

const { MemoryClient } = load("mem0ai");
const given = options();
const run = new Run(given);
const client = new MemoryClient({ apiKey: given.key, host: given.base });
const userId = `alice-${given.suffix}`;
const filters = { user_id: userId };

await run.step("ping", () => client.ping());

// ---- add
const added = await run.step("add_infer", () =>
  client.add([{ role: "user", content: "I like green tea\nMy dog is called Rex" }], {
    userId,
    metadata: { source: "chat", nested: { KeepCase: 1, snake_case: [1, 2.5, null] } },
  }),
);
const event = await run.step("event_of_add", () => run.finished(added.eventId));
const nothing = await run.step("add_infer_nothing", () =>
  client.add([{ role: "user", content: "What is the weather like?" }], { userId }),
);
await run.step("event_of_nothing", () => run.finished(nothing.eventId));
const ids = [];
for (const [number, fact] of FACTS.entries()) {
  const answer = await run.step(`add_verbatim_${number}`, () =>
    client.add([{ role: "user", content: fact }], {
      userId,
      infer: false,
      metadata: { number, kind: number % 2 ? "odd" : "even" },
    }),
  );
  ids.push(answer.results[0].id);
}
await run.step("add_agent_and_run", () =>
  client.add(
    [
      { role: "user", content: "Plan the release" },
      { role: "assistant", content: "The release is planned for May" },
    ],
    { agentId: `bot-${given.suffix}`, runId: `run-${given.suffix}`, infer: false },
  ),
);
await run.step("add_app_only", () =>
  client.add([{ role: "user", content: "The app ships dark mode" }], {
    appId: `app-${given.suffix}`,
    infer: false,
  }),
);

// ---- read
await run.step("search", () => client.search("who prefers milk in coffee", { filters, topK: 3 }));
await run.step("search_metadata", () =>
  client.search("archived invoices", {
    filters: { AND: [{ user_id: userId }, { metadata: { kind: "even" } }] },
    topK: 5,
    threshold: 0.2,
  }),
);
await run.step("search_fields", () =>
  client.search("Frankfurt region payments", { filters, topK: 1, fields: ["memory"] }),
);
let page = 1;
let listed;
do {
  listed = await run.step(`list_page_${page}`, () => client.getAll({ filters, page, pageSize: 4 }));
  // A next link that leads past the proxy prints as another base URL here.
  if (listed.next) await run.step(`next_of_page_${page}`, () => run.raw("POST", listed.next, { filters }));
  page++;
} while (listed.next);
await run.step("list_or", () =>
  client.getAll({
    filters: { OR: [{ agent_id: `bot-${given.suffix}` }, { app_id: `app-${given.suffix}` }] },
  }),
);
await run.step("get", () => client.get(ids[2]));
await run.step("get_extracted", () => client.get(event.results[0].id));

// ---- change
await run.step("update_text", () => client.update(ids[2], { text: "Alice prefers almond milk" }));
await run.step("update_metadata", () => client.update(ids[2], { metadata: { kind: "changed" } }));
await run.step("get_updated", () => client.get(ids[2]));
await run.step("history", () => client.history(ids[2]));
await run.step("history_of_extracted", () => client.history(event.results[0].id));
await run.step("batch_update", () =>
  client.batchUpdate([
    { memoryId: ids[0], text: "The deployment key rotates every Monday" },
    { memoryId: ids[1], text: "Payments run in the Dublin region" },
  ]),
);
await run.step("get_batch_updated", () => client.get(ids[0]));
await run.step("feedback", () => client.feedback({ memoryId: ids[0], feedback: "POSITIVE" }));

// ---- entities and events
await run.step("users", () => client.users({ page: 1, pageSize: 200 }), (answer) => run.ours(answer.results));
await run.step(
  "events",
  () => run.raw("GET", "/v1/events/?page=1&page_size=50"),
  (answer) => run.ours(answer.results).slice(0, 3),
);
const exported = await run.step("export_create", () =>
  client.createMemoryExport({
    schema: { type: "object", properties: { facts: { type: "array" } } },
    filters: { AND: [{ user_id: userId }] },
  }),
);
await run.step("export_get", () => client.getMemoryExport({ memoryExportId: exported.id }));

// ---- errors
await run.fails("get_unknown", () => client.get(UNKNOWN_ID));
await run.fails("get_not_an_id", () => client.get("not-an-id"));
await run.fails("update_unknown", () => client.update(UNKNOWN_ID, { text: "x" }));
await run.fails("delete_unknown", () => client.delete(UNKNOWN_ID));
await run.fails("list_without_filters", () => client.getAll({}));
await run.fails("list_beyond_last_page", () => client.getAll({ filters, page: 99, pageSize: 3 }));
await run.fails("add_without_id", () => client.add([{ role: "user", content: "x" }]));
await run.fails("batch_with_unknown", () => client.batchDelete([ids[6], UNKNOWN_ID]));

// ---- administration: a policy may well refuse it, so it is asked for
if (given.withAdmin) {
  await run.step("project_update", () => client.updateProject({ customInstructions: "Keep it short" }));
  await run.step("project_get", () => client.getProject({ fields: ["custom_instructions"] }));
  await run.step("project_restore", () => client.updateProject({ customInstructions: null }));
  const hook = await run.step("webhook_create", () =>
    client.createWebhook({ name: `hook-${given.suffix}`, url: "http://127.0.0.1:9/", eventTypes: ["memory_add"] }),
  );
  await run.step("webhook_list", () => client.getWebhooks(), (rows) => run.ours(rows));
  await run.step("webhook_delete", () => client.deleteWebhook({ webhookId: hook.webhookId }));
}

// ---- delete
await run.step("batch_delete", () => client.batchDelete([ids[0], ids[1]]));
await run.step("delete", () => client.delete(ids[2]));
await run.fails("get_deleted", () => client.get(ids[2]));
await run.step("history_of_deleted", () => client.history(ids[2]));
const slashed = `team/${given.suffix}`;
await run.step("add_slash_in_id", () =>
  client.add([{ role: "user", content: "A slash in an id is legal" }], { userId: slashed, infer: false }),
);
await run.step("delete_user_with_slash", () => client.deleteUsers({ userId: slashed }));
await run.step("delete_agent", () => client.deleteUsers({ agentId: `bot-${given.suffix}` }));
const deletion = await run.step("delete_all", () => client.deleteAll({ userId }));
await run.step("event_of_delete_all", () => run.finished(deletion.eventId));
await run.step("delete_app", () => client.deleteUsers({ appId: `app-${given.suffix}` }));
await run.step("list_after_delete", () => client.getAll({ filters }));
