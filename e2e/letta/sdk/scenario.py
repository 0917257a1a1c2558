"""The current Python SDK against everything that stores or shows memory."""

import io
import json

from letta_client import Letta
from lib.run import EMBEDDING, MODEL, UNKNOWN, Run, by_label, options, plain

given = options()
run = Run(given)
client = Letta(base_url=given.base, api_key=given.key)
s = given.suffix
SCRIPT = 'CALL memory_insert {"label":"human","new_string":"Likes tea."}\nTHEN\nSAY Noted.'


def brief(agent):
    told = plain(agent)
    kept = {k: told.get(k) for k in ("name", "agent_type", "tags", "description", "metadata", "tool_rules", "blocks")}
    return kept | {"tools": [tool["name"] for tool in told.get("tools") or []]}


# ---- agents and their blocks
agent = run.step(
    "agent_create",
    lambda: client.agents.create(
        name=f"main-{s}", description="Answers questions", model=MODEL, embedding=EMBEDDING,
        tags=[f"tag-{s}", "kind:test"], metadata={"nested": {"KeepCase": 1, "list": [1, 2.5, None]}},
        memory_blocks=[
            {"label": "human", "value": "Ann. Café Übermut 日本茶 🍵", "description": "Who is spoken to"},
            {"label": "persona", "value": "I am brief."},
        ],
    ),
    brief,
)
run.step("agent_retrieve", lambda: client.agents.retrieve(agent.id, include=["agent.blocks", "agent.tools", "agent.tags"]), brief)
run.step("agent_update", lambda: client.agents.update(agent.id, description="Changed"), brief)
run.step("agent_list", lambda: [brief(a) for a in client.agents.list(tags=[f"tag-{s}"])])
run.fails("agent_unknown", lambda: client.agents.retrieve(f"agent-{UNKNOWN}"))
run.step("core_list", lambda: list(client.agents.blocks.list(agent.id)), by_label)
run.step("core_retrieve", lambda: client.agents.blocks.retrieve("human", agent_id=agent.id))
run.step("core_update", lambda: client.agents.blocks.update("human", agent_id=agent.id, value="Ann, an engineer.", metadata={"source": "form"}))
run.fails("core_unknown_label", lambda: client.agents.blocks.retrieve("nothing", agent_id=agent.id))

# ---- blocks of their own
block = run.step("block_create", lambda: client.blocks.create(label="human", value=f"Block of {s}", metadata={"a": 1}, tags=[f"tag-{s}"]))
run.step("block_update", lambda: client.blocks.update(block.id, value=f"Changed {s}", metadata={"b": [True, None]}))
run.step("block_list", lambda: list(client.blocks.list(tags=[f"tag-{s}"])))
second = client.agents.create(name=f"second-{s}", model=MODEL, embedding=EMBEDDING, memory_blocks=[])
run.step("block_attach", lambda: client.agents.blocks.attach(block.id, agent_id=second.id), lambda a: a and [b.value for b in a.memory.blocks])
run.step("block_detach", lambda: client.agents.blocks.detach(block.id, agent_id=second.id), lambda a: a and len(a.memory.blocks))
run.step("block_delete", lambda: client.blocks.delete(block.id))
run.fails("block_deleted", lambda: client.blocks.retrieve(block.id))

# ---- archival memory and archives
passages = run.step("passage_create", lambda: client.agents.passages.create(agent.id, text="The sky over Bern is blue.", tags=["sky", "bern"]))
run.step("passage_create_more", lambda: client.agents.passages.create(agent.id, text="Grass in Uri is green."))
run.step("passage_list", lambda: client.agents.passages.list(agent.id))
run.step("passage_search", lambda: client.agents.passages.search(agent.id, query="sky blue", top_k=1))
run.step("passage_search_all", lambda: client.passages.search(query="green grass", agent_id=agent.id, limit=2))
run.step("passage_delete", lambda: client.agents.passages.delete(passages[0].id, agent_id=agent.id))
archive = run.step("archive_create", lambda: client.archives.create(name=f"archive-{s}", embedding=EMBEDDING))
stored = run.step("archive_passage", lambda: client.archives.passages.create(archive.id, text="Snow is white.", metadata={"page": 7}))
run.step("archive_passages", lambda: client.archives.passages.create_many(archive.id, passages=[{"text": "Coal is black."}]))
run.step("archive_attach", lambda: client.agents.archives.attach(archive.id, agent_id=second.id))
run.step("archive_search", lambda: client.passages.search(query="white snow", archive_id=archive.id, limit=1))
run.step("archive_passage_delete", lambda: client.archives.passages.delete(stored.id, archive_id=archive.id))
run.step("archive_delete", lambda: client.archives.delete(archive.id))


# ---- messages
def send(text=SCRIPT, **more):
    return client.agents.messages.create(agent.id, input=text, **more)


run.step("message_plain", lambda: send("Good morning"))
run.step("message_memory", send)
run.step("message_memory_result", lambda: client.agents.blocks.retrieve("human", agent_id=agent.id).value)
run.step("message_steps", lambda: run.drain(send(streaming=True)))
run.step("message_tokens", lambda: run.drain(send(streaming=True, stream_tokens=True)))
run.step("message_old_stream", lambda: run.drain(client.agents.messages.stream(agent.id, input="SAY Hi.")))
run.step("message_list", lambda: [m for m in client.agents.messages.list(agent.id, order="asc", limit=5) if m.message_type != "system_message"])
run.fails("message_model_error", lambda: client.with_options(max_retries=0).agents.messages.create(second.id, input="FAIL 400"))
run.fails("message_unknown_agent", lambda: client.agents.messages.create(f"agent-{UNKNOWN}", input="x"))

# ---- in the background, and again
chunks = list(send(streaming=True, background=True))
run.step("background", lambda: [c for c in chunks if c.message_type != "ping"])
run.step("background_again", lambda: run.drain(client.runs.messages.stream(chunks[0].run_id, starting_after=2)))
later = run.step("async", lambda: client.agents.messages.create_async(agent.id, input=SCRIPT), lambda r: r.status)
run.step("async_run", lambda: run.until(lambda: client.runs.retrieve(later.id), lambda r: r.status not in ("created", "running")),
         lambda r: [r.status, r.stop_reason])

# ---- conversations
talk = run.step("conversation_create", lambda: client.conversations.create(agent_id=agent.id, extra_body={"isolated_block_labels": ["human"]}))
run.step("conversation_stream", lambda: run.drain(client.conversations.messages.create(talk.id, input=SCRIPT)))
run.step("conversation_messages", lambda: [m for m in client.conversations.messages.list(talk.id, order="asc") if m.message_type != "system_message"])
run.step("conversation_block", lambda: client.blocks.retrieve(talk.isolated_block_ids[0]))
run.step("conversation_delete", lambda: client.conversations.delete(talk.id))

# ---- a client with a tool of its own
READ = {"name": "read_file", "description": "Reads a file", "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}
waits = run.step("own_tool_waits", lambda: send('CALL read_file {"path":"a.txt"}\nTHEN\nSAY Read.', client_tools=[READ]))
run.fails("own_tool_message_meanwhile", lambda: client.with_options(max_retries=0).agents.messages.create(agent.id, input="SAY x"))
run.step("own_tool_answer", lambda: client.agents.messages.create(
    agent.id, client_tools=[READ],
    messages=[{"type": "approval", "approvals": [{"type": "tool", "tool_call_id": waits.messages[-1].tool_call.tool_call_id,
                                                  "tool_return": "text", "status": "success"}]}]))

if given.with_admin:
    run.step("tool_run_memory", lambda: client.agents.tools.run("memory_insert", agent_id=agent.id, args={"label": "persona", "new_string": "Direct."}))
    identity = run.step("identity_create", lambda: run.raw("POST", "/v1/identities/", {"identifier_key": f"key-{s}", "name": "Ann", "identity_type": "user"}))
    run.step("identity_attach", lambda: client.agents.identities.attach(identity["id"], agent_id=second.id))
    run.step("identity_delete", lambda: run.raw("DELETE", f"/v1/identities/{identity['id']}"))

# ---- export and import
file = run.step("export", lambda: client.agents.export_file(agent.id), lambda f: [type(f).__name__, sorted(json.loads(f) if isinstance(f, str) else f)])
content = (file if isinstance(file, str) else json.dumps(file)).encode()
imported = run.step("import", lambda: client.agents.import_file(file=("agent.af", io.BytesIO(content))))
run.step("import_blocks", lambda: list(client.agents.blocks.list(imported.agent_ids[0])), lambda b: sorted([x.label, x.value] for x in b))

# ---- folders
folder = run.step("folder_create", lambda: client.folders.create(name=f"folder-{s}", embedding=EMBEDDING, instructions="Read with care."))
uploaded = run.step("folder_upload", lambda: client.folders.files.upload(folder.id, file=("rome.txt", io.BytesIO(b"Rome is in Italy.\n"))), lambda f: f.file_name)
run.step("folder_ready", lambda: run.until(
    lambda: client.folders.files.retrieve(uploaded.id, folder_id=folder.id, include_content=True),
    lambda f: f.processing_status in ("completed", "error")), lambda f: [f.processing_status, f.content])
run.step("folder_attach", lambda: client.agents.folders.attach(folder.id, agent_id=second.id), lambda a: a and a.name)
run.step("folder_delete", lambda: client.folders.delete(folder.id))

# ---- the end
for gone in (agent.id, second.id, imported.agent_ids[0]):
    run.step("agent_delete", lambda: client.agents.delete(gone))
run.fails("agent_deleted", lambda: client.agents.retrieve(agent.id))
