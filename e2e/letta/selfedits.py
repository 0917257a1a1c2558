"""Generated calls of Letta's memory tools, and what the server's code makes of them.

Usage: selfedits.py SEED COUNT > calls.jsonl

Each line is one call with the agent's blocks before it, and the blocks and
passages after it. The tools are the server's own (LettaCoreToolExecutor, and
AgentManager.update_memory_if_changed_async for what they store); only the
database is a list in this process. Arguments go through the parser of the
agent loop. The same seed gives the same lines.
"""

import asyncio
import json
import logging
import os
import random
import sys
from types import SimpleNamespace

os.environ.setdefault("LETTA_PG_URI", "postgresql://nobody@127.0.0.1:1/none")
logging.disable(logging.CRITICAL)

from letta.agents.helpers import _safe_load_tool_call_str  # noqa: E402
from letta.constants import REQUEST_HEARTBEAT_PARAM  # noqa: E402
from letta.schemas.agent import AgentState  # noqa: E402
from letta.schemas.block import Block  # noqa: E402
from letta.schemas.memory import Memory  # noqa: E402
from letta.schemas.passage import Passage  # noqa: E402
from letta.services.agent_manager import AgentManager  # noqa: E402
from letta.services.tool_executor.core_tool_executor import LettaCoreToolExecutor  # noqa: E402
from letta.settings import INNER_THOUGHTS_KWARG  # noqa: E402

AGENT = "agent-00000000-0000-4000-8000-000000000001"
ENDS = ["\n", "\n", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
WORDS = ["likes", "tea", "obey", "naïve", "日本", "🦋", "  two", "a\tb", "\t", "x\x1fy", "\u3000", "Description: d", "*** Description: d",
         "*** Add Block: system", "***  Add Block: x", "1→ line", "+", "-", "@@", "+++", "--- a", "}{", "\\", '"', "e\u0301", "\x00"]
LABELS = ["human", "persona", "notes", "system/persona", "system_persona", "plans/to day", "system", "", " human", "hu\u2028man"]
TOOLS = {
    "core_memory_append": ["label", "content"],
    "core_memory_replace": ["label", "old_content", "new_content"],
    "memory_replace": ["label", "old_string", "new_string"],
    "memory_insert": ["label", "new_string", "insert_line"],
    "memory_rethink": ["label", "new_memory"],
    "memory_str_replace": ["path", "old_string", "new_string"],
    "memory_str_insert": ["path", "insert_text", "insert_line"],
    "memory_apply_patch": ["label", "patch"],
    "memory": ["command"],
    "archival_memory_insert": ["content", "tags"],
}
COMMANDS = {
    "create": ["path", "description", "file_text"],
    "str_replace": ["path", "old_string", "new_string"],
    "insert": ["path", "insert_text", "insert_line"],
    "delete": ["path"],
    "rename": ["old_path", "new_path"],
    "describe": ["path", "description"],
    "unheard": ["path", "file_text"],
}


class Database:
    """What the managers keep, and what the agent loop hands to a tool."""

    def __init__(self, blocks):
        self.blocks = {b.id: b.model_copy() for b in blocks}
        self.attached = [b.id for b in blocks]
        self.passages = []
        self.message_manager = SimpleNamespace(get_message_by_id_async=self.message)
        self.block_manager = self

    def state(self):
        memory = Memory(blocks=[self.blocks[i].model_copy() for i in self.attached])
        return AgentState.model_construct(id=AGENT, name="a", memory=memory, message_ids=["message-1"], sources=[], tool_rules=None,
                                          max_files_open=1, llm_config=None, agent_type=None)

    async def message(self, **_):
        return SimpleNamespace(content=[SimpleNamespace(text="")])

    async def get_agent_by_id_async(self, **_):
        return self.state()

    async def get_all_blocks_by_ids_async(self, block_ids, actor):
        return [self.blocks[i].model_copy() for i in block_ids]

    async def update_block_async(self, block_id, block_update, actor):
        changed = block_update.model_dump(exclude_unset=True, exclude_none=True)
        self.blocks[block_id] = Block(**{**self.blocks[block_id].model_dump(), **changed})
        return self.blocks[block_id]

    async def create_or_update_block_async(self, block, actor):
        self.blocks[block.id] = block.model_copy()
        return block

    async def attach_block_async(self, agent_id, block_id, actor):
        self.attached.append(block_id)

    async def detach_block_async(self, agent_id, block_id, actor):
        from letta.orm.errors import NoResultFound

        if block_id not in self.attached:
            raise NoResultFound(block_id)
        self.attached.remove(block_id)
        return self.state()

    async def rebuild_system_prompt_async(self, **_):
        pass

    async def update_memory_if_changed_async(self, agent_id, new_memory, actor):
        real = AgentManager.update_memory_if_changed_async
        while hasattr(real, "__wrapped__"):
            real = real.__wrapped__
        return await real(self, agent_id=agent_id, new_memory=new_memory, actor=actor)

    async def insert_passage(self, agent_state, text, actor, tags=None):
        passage = Passage(organization_id="org-1", archive_id="archive-1", text=text, embedding=None, embedding_config=None, tags=tags)
        self.passages.append({"text": passage.text, "tags": passage.tags or []})


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self, blocks):
        r = self.r
        if blocks and r.random() < 0.35:  # something that stands there
            value = r.choice(blocks)["value"]
            if value:
                start = r.randrange(len(value))
                return value[start : start + r.randrange(1, 12)]
        return "".join(r.choice(WORDS) + r.choice(["", "", " ", r.choice(ENDS)]) for _ in range(r.randrange(5)))

    def path(self, labels):
        return self.r.choice(["/memories/", "/memories/", "/memories/", "/", "", "/memories", "//"]) + self.r.choice(labels)

    def patch(self, blocks, labels):
        r, lines = self.r, []
        value = r.choice(blocks)["value"].expandtabs().split("\n")
        for _ in range(r.randrange(1, 8)):
            k = r.random()
            if k < 0.3:
                head = r.choice(["Add Block", "Delete Block", "Update Block", "Update Block", "Move to", "Begin Patch"])
                lines.append("*** " + head + r.choice([": ", ":", ":  ", " : "]) + r.choice(labels))
                if r.random() < 0.3:
                    lines.append(r.choice(["", "*** "]) + "Description: " + self.text(blocks))
            elif k < 0.55:
                lines.append("+" + self.text(blocks))
            elif k < 0.8:
                lines.append(r.choice(" -") + r.choice(value))
            elif k < 0.9:
                lines.append(r.choice(["@@", "", " ", "+++ b", "--- a", "+"]))
            else:
                lines.append(self.text(blocks))
        end = r.choice(ENDS) if r.random() < 0.5 else "\n"
        return end.join(lines) + r.choice(["", end])

    def value(self, name, blocks, labels):
        r = self.r
        if r.random() < 0.02:
            return r.choice([None, 5, True, 1.5, ["x"], {"a": "b"}, [], ""])
        if name == "label":
            return r.choice(labels)
        if name.endswith("path"):
            return self.path(labels)
        if name == "insert_line":
            return r.choice([0, 1, 2, -1, -1, 9, -2, None])
        if name == "tags":
            return r.choice([None, [], ["a"], [self.text(blocks), self.text(blocks)], ["memproxy_id"], "tag", [1]])
        if name == "patch":
            return self.patch(blocks, labels)
        return self.text(blocks)

    def call(self):
        r = self.r
        labels = r.sample(LABELS, r.randrange(1, 5))
        blocks = [{"label": l, "value": self.text([]).replace("\0", ""), "description": r.choice(["", "about"]), "read_only": r.random() < 0.1} for l in labels]
        tool = r.choice([*TOOLS, "memory_apply_patch", "memory_apply_patch", "memory", "memory"])
        names, args = TOOLS[tool], {}
        if tool == "memory":
            command = r.choice(list(COMMANDS))
            names, args["command"] = COMMANDS[command], "rename" if command == "describe" else command
        for name in names:
            if r.random() > 0.03:
                args[name] = self.value(name, blocks, labels + r.sample(LABELS, 1))
        if r.random() < 0.03:
            args[r.choice(["novel", "new_str", "thinking", "request_heartbeat", "file_text", "self", "actor"])] = self.text(blocks)
        arguments = json.dumps(args, ensure_ascii=r.random() < 0.5)
        k = r.random()
        if k < 0.01:
            arguments = json.dumps(arguments)  # JSON in a string
        elif k < 0.02 and len(args) > 1:
            arguments = arguments[:-1] + ", " + json.dumps(r.choice(list(args))) + ": " + json.dumps(self.text(blocks)) + "}"
        elif k < 0.03:
            arguments += r.choice(["{}", "x", arguments])
        return tool, arguments, blocks


async def run(tool, arguments, blocks):
    db = Database([Block(**{**b, "description": b["description"] or None}) for b in blocks])
    before = list(db.blocks)
    executor = LettaCoreToolExecutor(message_manager=None, agent_manager=db, block_manager=db, run_manager=None, passage_manager=db, actor=None)
    failed = True
    try:
        args = _safe_load_tool_call_str(arguments)
        args.pop(REQUEST_HEARTBEAT_PARAM, None)
        args.pop(INNER_THOUGHTS_KWARG, None)
        result = await executor.execute(tool, args, None, None, agent_state=db.state())
        failed = result.status != "success"
    except Exception:  # the loop tells the agent
        pass
    after = [
        {"label": b.label, "value": b.value, "description": b.description or "", "read_only": b.read_only,
         "was": before.index(b.id) if b.id in before else -1, "attached": b.id in db.attached}
        for b in db.blocks.values()
    ]
    return {"tool": tool, "arguments": arguments, "blocks": blocks, "after": after, "passages": db.passages, "failed": failed}


def main():
    g = Generator(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(json.dumps(asyncio.run(run(*g.call())), separators=(",", ":")))


main()
