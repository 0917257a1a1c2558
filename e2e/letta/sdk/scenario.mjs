// The current TypeScript SDK against everything that stores or shows memory.
import { EMBEDDING, MODEL, Run, UNKNOWN, brief, load, options } from "./lib/run.mjs";

const { Letta, toFile } = load("@letta-ai/letta-client");
const given = options();
const run = new Run(given);
const client = new Letta({ apiKey: given.key, baseURL: given.base });
const s = given.suffix;
const ALL = { include: ["agent.blocks", "agent.tools", "agent.tags"] };
const byLabel = (blocks) => [...blocks].sort((a, b) => (a.label < b.label ? -1 : 1));
const SCRIPT = 'CALL memory_insert {"label":"human","new_string":"Likes tea."}\nTHEN\nSAY Noted.';

// ---- agents
const agent = await run.step(
  "agent_create",
  () =>
    client.agents.create({
      name: `main-${s}`,
      description: "Answers questions",
      model: MODEL,
      embedding: EMBEDDING,
      tags: [`tag-${s}`, "kind:test"],
      metadata: { nested: { KeepCase: 1, list: [1, 2.5, null] } },
      memory_blocks: [
        { label: "human", value: "Ann. Café Übermut 日本茶 🍵", description: "Who is spoken to" },
        { label: "persona", value: "I am brief.", read_only: false },
      ],
    }),
  brief,
);
await run.step("agent_retrieve", () => client.agents.retrieve(agent.id, ALL), brief);
await run.step("agent_update", () => client.agents.update(agent.id, { description: "Changed" }), brief);
await run.step("agent_list", () => run.all(client.agents.list({ tags: [`tag-${s}`] })), (a) => a.map(brief));
await run.step("agent_tools", () => client.agents.tools.list(agent.id), (t) => t.items.map((x) => x.name).sort());
await run.fails("agent_unknown", () => client.agents.retrieve(`agent-${UNKNOWN}`));
await run.fails("agent_bad_id", () => client.agents.retrieve("nonsense"));

// ---- blocks of an agent
await run.step("core_list", () => run.all(client.agents.blocks.list(agent.id)), byLabel);
await run.step("core_retrieve", () => client.agents.blocks.retrieve("human", { agent_id: agent.id }));
await run.step("core_update", () =>
  client.agents.blocks.update("human", { agent_id: agent.id, value: "Ann, an engineer.", metadata: { source: "form" } }),
);
await run.fails("core_unknown_label", () => client.agents.blocks.retrieve("nothing", { agent_id: agent.id }));

// ---- blocks of their own
const block = await run.step("block_create", () =>
  client.blocks.create({ label: "human", value: `Block of ${s}`, description: "d", metadata: { a: 1 }, tags: [`tag-${s}`] }),
);
await run.step("block_retrieve", () => client.blocks.retrieve(block.id));
await run.step("block_update", () => client.blocks.update(block.id, { value: `Changed ${s}`, metadata: { b: [true, null] } }));
await run.step("block_list", () => run.all(client.blocks.list({ tags: [`tag-${s}`] })));
await run.step("block_list_pages", async () => {
  const made = [];
  for (const number of [1, 2, 3]) {
    made.push(await client.blocks.create({ label: "persona", value: `${number}`, tags: [`page-${s}`] }));
  }
  const listed = await run.all(client.blocks.list({ tags: [`page-${s}`], limit: 2 }));
  for (const one of made) await client.blocks.delete(one.id);
  return listed;
});
const second = await client.agents.create({ name: `second-${s}`, model: MODEL, embedding: EMBEDDING, memory_blocks: [] });
await run.step("block_attach", () => client.agents.blocks.attach(block.id, { agent_id: second.id }));
await run.step("block_agents", () => run.all(client.blocks.agents.list(block.id)), (a) => a.map((x) => x.name));
await run.step("block_detach", () => client.agents.blocks.detach(block.id, { agent_id: second.id }));
await run.step("block_detached", () => run.all(client.agents.blocks.list(second.id)));
await run.step("block_delete", () => client.blocks.delete(block.id));
await run.fails("block_deleted", () => client.blocks.retrieve(block.id));

// ---- archival memory
const passages = await run.step("passage_create", () =>
  client.agents.passages.create(agent.id, { text: "The sky over Bern is blue.", tags: ["sky", "bern"] }),
);
await run.step("passage_create_more", () => client.agents.passages.create(agent.id, { text: "Grass in Uri is green." }));
await run.step("passage_list", () => client.agents.passages.list(agent.id));
await run.step("passage_search", () => client.agents.passages.search(agent.id, { query: "sky blue", top_k: 1 }));
await run.step("passage_search_tags", () => client.agents.passages.search(agent.id, { query: "sky", tags: ["bern"] }));
await run.step("passage_search_all", () => client.passages.search({ query: "green grass", agent_id: agent.id, limit: 2 }));
await run.step("passage_delete", () => client.agents.passages.delete(passages[0].id, { agent_id: agent.id }));
await run.step("passage_list_after", () => client.agents.passages.list(agent.id), (p) => p.map((x) => x.text));

// ---- archives
const archive = await run.step("archive_create", () =>
  client.archives.create({ name: `archive-${s}`, description: "d", embedding: EMBEDDING }),
);
const stored = await run.step("archive_passage", () =>
  client.archives.passages.create(archive.id, { text: "Snow is white.", metadata: { page: 7 }, tags: ["snow"] }),
);
await run.step("archive_passages", () =>
  client.archives.passages.createMany(archive.id, { passages: [{ text: "Coal is black." }, { text: "Gold is yellow." }] }),
);
await run.step("archive_attach", () => client.agents.archives.attach(archive.id, { agent_id: second.id }));
await run.step("archive_search", () => client.passages.search({ query: "white snow", archive_id: archive.id, limit: 2 }));
await run.step("archive_update", () => client.archives.update(archive.id, { description: "changed" }));
await run.step("archive_list", () => run.all(client.archives.list({ name: `archive-${s}` })));
await run.step("archive_passage_delete", () => client.archives.passages.delete(stored.id, { archive_id: archive.id }));
await run.step("archive_detach", () => client.agents.archives.detach(archive.id, { agent_id: second.id }));
await run.step("archive_delete", () => client.archives.delete(archive.id));

// ---- messages
const send = (more = {}, text = SCRIPT) => client.agents.messages.create(agent.id, { input: text, ...more });
await run.step("message_plain", () => send({}, "Good morning"));
const told = await run.step("message_memory", () => send());
// What was said, by itself, by its step and by its run.
await run.step("message_alone", async () => {
  const each = [];
  for (const id of new Set(told.messages.map((m) => m.id))) each.push(await client.messages.retrieve(id));
  return each;
});
await run.step("step_messages", () => run.all(client.steps.messages.list(told.messages[0].step_id)));
await run.step("run_steps", () => run.all(client.runs.steps.list(told.messages[0].run_id)));
await run.step("run_messages", () => run.all(client.runs.messages.list(told.messages[0].run_id)));
await run.step("run_usage", () => client.runs.usage.retrieve(told.messages[0].run_id));
await run.step("message_memory_result", () => client.agents.blocks.retrieve("human", { agent_id: agent.id }), (b) => b.value);
await run.step("message_steps", async () => run.drain(await send({ streaming: true })));
await run.step("message_tokens", async () => run.drain(await send({ streaming: true, stream_tokens: true })));
await run.step("message_old_stream", async () => run.drain(await client.agents.messages.stream(agent.id, { input: "SAY Hi." })));
await run.step("message_parts", () =>
  client.agents.messages.create(agent.id, {
    messages: [{ role: "user", content: [{ type: "text", text: "SAY One" }, { type: "text", text: "SAY Two" }] }],
  }),
);
await run.step("message_types", () => send({ include_return_message_types: ["assistant_message"] }));
await run.step("message_max_steps", () => send({ max_steps: 1 }));
await run.step("message_list", () => run.all(client.agents.messages.list(agent.id, { order: "asc", limit: 100 })), (m) =>
  m.filter((x) => x.message_type !== "system_message"),
);
await run.step("message_list_pages", () => run.all(client.agents.messages.list(agent.id, { limit: 7 })), (m) =>
  m.map((x) => [x.message_type, x.id]),
);
await run.fails("message_model_error", () => client.agents.messages.create(second.id, { input: "FAIL 400" }, { maxRetries: 0 }));
await run.fails("message_unknown_agent", () => client.agents.messages.create(`agent-${UNKNOWN}`, { input: "x" }));
await run.fails("message_invalid", () => client.agents.messages.create(agent.id, { messages: "no list" }));

// ---- in the background, and again
const chunks = [];
await run.step("background", async () => {
  for await (const event of await send({ streaming: true, background: true })) chunks.push(event);
  return chunks.filter((event) => event.message_type !== "ping");
});
await run.step("background_again", async () =>
  run.drain(await client.runs.messages.stream(chunks[0].run_id, { starting_after: 2 })),
);
const later = await run.step("async", () => client.agents.messages.createAsync(agent.id, { input: SCRIPT }), (r) => r.status);
await run.step("async_run", async () => {
  for (;;) {
    const now = await client.runs.retrieve(later.id);
    if (now.status !== "created" && now.status !== "running") return { status: now.status, stop_reason: now.stop_reason };
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
});
await run.step("async_messages", () => run.all(client.runs.messages.list(later.id, { order: "asc" })));

// ---- conversations
const talk = await run.step("conversation_create", () =>
  client.conversations.create({ agent_id: agent.id, isolated_block_labels: ["human"], summary: "talk" }),
);
await run.step("conversation_stream", async () => run.drain(await client.conversations.messages.create(talk.id, { input: SCRIPT })));
await run.step("conversation_json", () => run.raw("POST", `/v1/conversations/${talk.id}/messages`, { input: SCRIPT, streaming: false }));
await run.step("conversation_list", () => client.conversations.list({ agent_id: agent.id }));
await run.step("conversation_messages", () => run.all(client.conversations.messages.list(talk.id, { order: "asc" })), (m) =>
  m.filter((x) => x.message_type !== "system_message"),
);
await run.step("conversation_block", () => client.blocks.retrieve(talk.isolated_block_ids[0]));
await run.step("conversation_update", () => client.conversations.update(talk.id, { summary: "changed" }));
await run.step("conversation_delete", () => client.conversations.delete(talk.id));

// ---- a client with tools and approvals of its own
const READ = {
  name: "read_file",
  description: "Reads a file",
  parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
};
await run.step("own_tool_waits", () => send({ client_tools: [READ] }, 'CALL read_file {"path":"a.txt"}\nTHEN\nSAY Read.'));
const asked = await client.agents.retrieve(agent.id, { include: ["agent.pending_approval"] });
await run.fails("own_tool_message_meanwhile", () =>
  client.agents.messages.create(agent.id, { input: "SAY x" }, { maxRetries: 0 }),
);
await run.step("own_tool_answer", () =>
  client.agents.messages.create(agent.id, {
    client_tools: [READ],
    messages: [
      {
        type: "approval",
        approvals: [
          { type: "tool", tool_call_id: asked.pending_approval.tool_calls[0].tool_call_id, tool_return: "text", status: "success" },
        ],
      },
    ],
  }),
);

// ---- tools, only where a policy may well refuse
if (given.withAdmin) {
  const source = `def shout_${s}(text: str) -> str:\n    """Shouts.\n\n    Args:\n        text (str): what to shout\n\n    Returns:\n        str: it\n    """\n    return text.upper()\n`;
  const tool = await run.step("tool_create", () => client.tools.create({ source_code: source, tags: [`tag-${s}`] }), (t) => t.json_schema);
  await run.step("tool_attach", () => client.agents.tools.attach(tool.id, { agent_id: second.id }));
  // The SDK sends the field under a name that the server does not know.
  await run.fails("tool_approval", () =>
    client.agents.tools.updateApproval(tool.name, { agent_id: second.id, body_requires_approval: true }),
  );
  await run.step("tool_approval_plain", () =>
    run.raw("PATCH", `/v1/agents/${second.id}/tools/approval/${tool.name}`, { requires_approval: true }),
  );
  await run.step("tool_detach", () => client.agents.tools.detach(tool.id, { agent_id: second.id }));
  await run.step("tool_run_memory", () =>
    client.agents.tools.run("memory_insert", { agent_id: agent.id, args: { label: "persona", new_string: "Direct." } }),
  );
  await run.step("tool_delete", () => client.tools.delete(tool.id));

  // ---- identities and groups: no methods in this SDK
  const identity = await run.step("identity_create", () =>
    run.raw("POST", "/v1/identities/", { identifier_key: `key-${s}`, name: "Ann", identity_type: "user", properties: [{ key: "city", value: "Bern", type: "string" }] }),
  );
  await run.step("identity_attach", () => client.agents.identities.attach(identity.id, { agent_id: second.id }));
  await run.step("identity_list", () => run.raw("GET", `/v1/identities/?identifier_key=key-${s}`));
  await run.step("identity_delete", () => run.raw("DELETE", `/v1/identities/${identity.id}`));
  const group = await run.step("group_create", () =>
    run.raw("POST", "/v1/groups/", { agent_ids: [second.id], description: `group ${s}` }),
  );
  await run.step("group_delete", () => run.raw("DELETE", `/v1/groups/${group.id}`));
}

// ---- export and import
const file = await run.step("export", () => client.agents.exportFile(agent.id), (f) => {
  const content = typeof f === "string" ? JSON.parse(f) : f;
  return { type: typeof f, keys: Object.keys(content).sort(), blocks: byLabel(content.blocks).map((b) => ({ ...b, id: undefined })) };
});
const imported = await run.step("import", async () =>
  client.agents.importFile({ file: await toFile(Buffer.from(typeof file === "string" ? file : JSON.stringify(file)), "agent.af"), append_copy_suffix: true }),
);
await run.step("import_blocks", () => run.all(client.agents.blocks.list(imported.agent_ids[0])), (b) => b.map((x) => [x.label, x.value]).sort());

// ---- folders
const folder = await run.step("folder_create", () =>
  client.folders.create({ name: `folder-${s}`, description: "d", embedding: EMBEDDING, instructions: "Read with care." }),
);
const uploaded = await run.step("folder_upload", async () =>
  client.folders.files.upload(folder.id, { file: await toFile(Buffer.from("Rome is in Italy.\n"), "rome.txt"), name: "rome.txt" }),
  (f) => ({ file_name: f.file_name, source_id: f.source_id }),
);
await run.step("folder_ready", async () => {
  for (;;) {
    const now = await client.folders.files.retrieve(uploaded.id, { folder_id: folder.id, include_content: true });
    if (["completed", "error"].includes(now.processing_status)) return [now.processing_status, now.content];
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
await run.step("folder_passages", () => run.raw("GET", `/v1/folders/${folder.id}/passages`), (p) => p.map((x) => x.text));
await run.step("folder_attach", () => client.agents.folders.attach(folder.id, { agent_id: second.id }));
await run.step("folder_agent_files", () => run.all(client.agents.files.list(second.id)), (f) => f.map((x) => x.file_name));
await run.step("folder_detach", () => client.agents.folders.detach(folder.id, { agent_id: second.id }));
await run.step("folder_delete", () => client.folders.delete(folder.id));

// ---- the end
await run.step("prompt", () => client.agents.recompile(agent.id, { dry_run: true }), (p) => p.includes("Likes tea."));
await run.step("reset", () => client.agents.messages.reset(agent.id, { add_default_initial_messages: false }), (a) => a?.message_ids?.length);
for (const id of [agent.id, second.id, imported.agent_ids[0]]) await run.step("agent_delete", () => client.agents.delete(id));
await run.fails("agent_deleted", () => client.agents.retrieve(agent.id));
