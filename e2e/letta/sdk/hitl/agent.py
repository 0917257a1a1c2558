"""One agent of a case, and the requests that every case makes of it."""

import json

MODEL, EMBEDDING = "openai-proxy/gpt-4o-mini", "openai/text-embedding-3-small"
ENDING = "\nTHEN\nSAY All done."


def call(name, **arguments):
    return f"CALL {name} {json.dumps(arguments, ensure_ascii=False)}"


def insert(text, label="human"):
    return call("memory_insert", label=label, new_string=text)


def approve(*ids):
    return [{"type": "approval", "tool_call_id": i, "approve": True} for i in ids]


def deny(reason, *ids):
    return [{"type": "approval", "tool_call_id": i, "approve": False, "reason": reason} for i in ids]


def returned(text, *ids, status="success"):
    return [{"type": "tool", "tool_call_id": i, "status": status, "tool_return": text} for i in ids]


class Agent:
    def __init__(self, wire, label_values=None, **settings):
        self.wire = wire
        blocks = [{"label": k, "value": v} for k, v in (label_values or {"human": "Ann."}).items()]
        wanted = {"name": "recorded", "model": MODEL, "embedding": EMBEDDING, "memory_blocks": blocks, **settings}
        created = wire.ask("POST", "/v1/agents/", wanted)
        assert created.status == 200, created.raw
        self.state = created.body
        self.id = self.state["id"]
        self.path = f"/v1/agents/{self.id}"
        self.messages = f"{self.path}/messages"

    def client_tools(self, *names):
        """What a gate would send: the server's own schemas, as tools of the client."""
        attached = self.wire.ask("GET", f"{self.path}/tools").body
        schemas = {tool["name"]: tool["json_schema"] for tool in attached}
        return [{k: schemas[n][k] for k in ("name", "description", "parameters")} for n in names]

    def say(self, text, note="", path=None, record=True, **more):
        asked = {"messages": [{"role": "user", "content": text}], **more}
        return self._post(asked, note, path, record)

    def reply(self, approvals, note="", path=None, then=None, record=True, **more):
        messages = [{"type": "approval", "approvals": approvals}]
        if then is not None:
            messages.append({"role": "user", "content": then})
        return self._post({"messages": messages, **more}, note, path, record)

    def _post(self, body, note, path, record):
        path = path or self.messages
        return self.wire.record("POST", path, body, note) if record else self.wire.ask("POST", path, body)

    def block(self, label="human", note="the block"):
        return self.wire.record("GET", f"{self.path}/core-memory/blocks/{label}", note=note).body["value"]

    def value(self, label="human"):
        return self.wire.ask("GET", f"{self.path}/core-memory/blocks/{label}").body["value"]

    def history(self, note="the history"):
        return self.wire.record("GET", f"{self.messages}?order=asc&limit=50", note=note).body

    def waiting(self, note="what waits"):
        """Only the part that matters: the whole agent is long."""
        state = self.wire.ask("GET", f"{self.path}?include=agent.pending_approval").body
        kept = {k: state.get(k) for k in ("id", "pending_approval", "last_stop_reason", "tool_rules")}
        self.wire.show(f"{note}: GET /v1/agents/{{id}}?include=agent.pending_approval, some fields", kept)
        return state

    def pending(self):
        """The request that waits in the agent's own conversation, and its call ids."""
        waiting = self.wire.ask("GET", f"{self.path}?include=agent.pending_approval").body["pending_approval"]
        return (waiting["id"], [c["tool_call_id"] for c in waiting["tool_calls"]]) if waiting else (None, [])

    def finished(self, run_id, note="the run in the end"):
        for _ in range(2000):
            run = self.wire.ask("GET", f"/v1/runs/{run_id}").body
            if run["status"] in ("completed", "failed", "cancelled"):
                break
        return self.wire.record("GET", f"/v1/runs/{run_id}", note=note).body

    def seen_by_model(self, stub, last=1, note="what the model was shown"):
        """The newest requests that reached the model, without the system prompt."""
        prompts = [p for p in stub.ask("GET", "/_e2e/prompts").body["prompts"]][-last:]
        kept = []
        for prompt in prompts:
            tools = prompt.get("tools") or []
            kept.append(
                {
                    "messages": [m for m in prompt["messages"] if m["role"] != "system"],
                    "tools": [
                        {"name": t["function"]["name"], "strict": t["function"].get("strict")} for t in tools
                    ],
                    "tool_choice": prompt.get("tool_choice"),
                    "parallel_tool_calls": prompt.get("parallel_tool_calls"),
                }
            )
        self.wire.show(note, kept)
        return kept
