"""Conversations, sleeptime agents, twin routes, and other ways around a gate."""

import threading
import time

from .agent import ENDING, MODEL, Agent, approve, call, deny, insert


def _conversation(wire, agent, **settings):
    made = wire.record("POST", f"/v1/conversations/?agent_id={agent.id}", settings, "a conversation").body
    return made, f"/v1/conversations/{made['id']}/messages"


def case_conversation(wire, stub):
    """A conversation pauses on its own: its stream, its answer, its history; the agent's
    default conversation is not held up."""
    agent = Agent(wire)
    tools = agent.client_tools("memory_insert")
    made, path = _conversation(wire, agent)
    agent.say(insert("one") + ENDING, "a message: a stream by default", path=path, client_tools=tools)
    agent.waiting("what the agent says waits")
    agent.say("SAY Hello.", "the agent's own conversation goes on")
    agent.say("SAY Hello.", "the paused one does not", path=path, streaming=False)
    agent.reply(approve("call_0000"), "the approval sent to the agent instead", client_tools=tools)
    agent.reply(approve("call_0000"), "the approval", path=path, streaming=False, client_tools=tools)
    agent.block()
    wire.record("GET", f"{path}?order=asc", note="the conversation's history")


def case_conversation_isolated(wire, stub):
    """A conversation with blocks of its own: an approved call writes there, a direct
    run of the tool writes to the agent's block."""
    agent = Agent(wire)
    tools = agent.client_tools("memory_insert")
    made, path = _conversation(wire, agent, isolated_block_labels=["human"])
    agent.say(insert("one") + ENDING, record=False, path=path, streaming=False, client_tools=tools)
    wire.record("POST", f"{agent.path}/tools/memory_insert/run", {"args": {"label": "human", "new_string": "direct"}}, "a direct run")
    agent.reply(approve("call_0000"), "the approval", path=path, streaming=False, client_tools=tools)
    agent.block(note="the agent's block")
    wire.record("GET", f"/v1/blocks/{made['isolated_block_ids'][0]}", note="the conversation's block")


def case_conversation_default(wire, stub):
    """/v1/conversations/default with the agent in the body, and the agent's id as the
    conversation's, are the agent's own conversation."""
    agent = Agent(wire)
    tools = agent.client_tools("memory_insert")
    path = "/v1/conversations/default/messages"
    agent.say(insert("one") + ENDING, "a message", path=path, agent_id=agent.id, client_tools=tools, streaming=False)
    agent.waiting()
    agent.reply(approve("call_0000"), "the approval", path=f"/v1/conversations/{agent.id}/messages", client_tools=tools, streaming=False)
    agent.block()


def case_twin_routes(wire, stub):
    """/latest is /v1; a legacy client is answered differently."""
    agent = Agent(wire)
    path = f"/latest/agents/{agent.id}/messages"
    tools = agent.client_tools("memory_insert")
    agent.say(insert("one") + ENDING, "the twin", path=path, client_tools=tools)
    agent.reply(approve("call_0000"), "the approval", path=path, client_tools=tools)
    old = {"X-Stainless-Package-Version": None, "User-Agent": "@letta-ai/letta-client/0.1.0"}
    asked = {"messages": [{"role": "user", "content": "SAY Hi."}], "streaming": True}
    wire.record("POST", agent.messages, asked, "streaming for an old client", headers=old)
    go = {"X-Stainless-Package-Version": None, "User-Agent": "Go-http-client/1.1"}
    wire.record("PATCH", f"{agent.path}/tools/approval/memory_insert", {"requires_approval": False},
                "a client that does not say what it is", headers=go)
    wire.record("GET", "/v1/blocks?limit=1&label=nothing", note="a collection without its slash")
    wire.record("GET", "/v1/%62locks/?limit=1&label=nothing", note="an encoded letter")
    wire.record("GET", "/v1//blocks/?limit=1&label=nothing", note="a doubled slash")
    wire.record("PATCH", f"/v1/_internal_agents/{agent.id}/core-memory/blocks/human", {"value": "hidden"}, "the hidden twin")


def case_sleeptime(wire, stub):
    """A sleeptime agent shares the block and runs after the answer, without the
    client's tools: only a rule on its own tool pauses it."""
    agent = Agent(wire, enable_sleeptime=True)
    group = wire.ask("GET", f"{agent.path}?include=agent.managed_group").body["managed_group"]
    other = next(i for i in group["agent_ids"] if i != agent.id)
    wire.ask("PATCH", f"/v1/groups/{group['id']}", {"manager_config": {"manager_type": "sleeptime", "sleeptime_agent_frequency": 1}})
    state = wire.ask("GET", f"/v1/agents/{other}?include=agent.tools&include=agent.blocks").body
    wire.show("the sleeptime agent", {"agent_type": state["agent_type"], "tools": sorted(t["name"] for t in state["tools"]),
              "blocks": sorted(b["label"] for b in state["blocks"]), "tool_rules": state["tool_rules"]})
    mine = wire.ask("GET", f"{agent.path}?include=agent.tools").body
    wire.show("the main agent", {"agent_type": mine["agent_type"], "tools": sorted(t["name"] for t in mine["tools"])})
    wire.record("PATCH", f"/v1/agents/{other}/tools/approval/memory_insert", {"requires_approval": True}, "a rule for the sleeptime agent")
    first = agent.say(f"SAY Hello.\nASIDE {insert('one')}\nASIDE THEN\nASIDE {call('memory_rethink', label='human', new_memory='two')}",
                      "a message to the main agent")
    for run in first.body["usage"]["run_ids"] or []:
        agent.finished(run, "the background run in the end")
    messages = wire.ask("GET", f"/v1/agents/{other}/messages?order=asc").body
    wire.show("what the sleeptime agent was told and did", [m for m in messages if m["message_type"] != "system_message"])
    waiting = wire.ask("GET", f"/v1/agents/{other}?include=agent.pending_approval").body["pending_approval"]
    answer = {"messages": [{"type": "approval", "approvals": approve(*[c["tool_call_id"] for c in waiting["tool_calls"]])}]}
    wire.record("POST", f"/v1/agents/{other}/messages", answer, "the approval, sent to the sleeptime agent")
    agent.block(note="the shared block: also the call without a rule ran")
    agent.say("SAY Hello again.", "a message to the main agent while nothing waits")


def case_agent_patch_bypasses(wire, stub):
    """Tags on a block by agent and label, metadata at creation, and block_ids."""
    agent = Agent(wire)
    label = f"{agent.path}/core-memory/blocks/human"
    wire.record("PATCH", label, {"tags": ["a"]}, "tags by label")
    wire.record("PATCH", label, {"metadata": {"memproxy_id": "m1"}}, "metadata by label")
    wire.record("PATCH", label, {"metadata": {"other": 1}}, "metadata is replaced whole")
    wire.record("PATCH", label, {"description": None, "value": None, "limit": 5}, "null, and a limit below the length")
    wire.record("PATCH", label, {"value": "longer than five"}, "a value above the limit")
    made = wire.ask("POST", "/v1/agents/", {"name": "second", "model": MODEL, "memory_blocks": [
        {"label": "human", "value": "x", "metadata": {"memproxy_id": "m2"}, "tags": ["t"]}]}).body
    wire.show("a block made with its agent keeps", {k: made["blocks"][0][k] for k in ("metadata", "tags")})
    block = wire.record("POST", "/v1/blocks/", {"label": "human", "value": "x", "metadata": {"memproxy_id": "m3"}, "tags": ["t"]}, "a block of its own").body
    agent = Agent(wire)
    # The new block has the label of the old one: it is not attached, the old one goes.
    wire.record("PATCH", agent.path, {"block_ids": [block["id"]]}, "an agent's set of blocks is replaced")
    wire.record("GET", f"{agent.path}/core-memory/blocks", note="the agent's blocks after PATCH of block_ids")


def case_archival(wire, stub):
    """What an agent's archival routes answer, the stored vector's length left out."""
    agent = Agent(wire)
    path = f"{agent.path}/archival-memory"
    made = wire.record("POST", path, {"text": "The sky is blue.", "tags": ["sky"], "metadata": {"lost": True}}, "a passage")
    wire.show("numbers in the vector of the answer", len(made.body[0]["embedding"] or []))
    wire.record("GET", f"{path}/search?query=sky&top_k=2", note="a search")
    archives = wire.record("GET", f"/v1/archives/?agent_id={agent.id}", note="the agent's archive").body
    wire.record("POST", f"/v1/archives/{archives[0]['id']}/passages", {"text": "Grass is green.", "metadata": {"memproxy_id": "m1"}}, "through the archive")
    wire.record("POST", "/v1/passages/search", {"query": "green grass", "agent_id": agent.id}, "a search of passages")
    wire.record("DELETE", f"{path}/{made.body[0]['id']}", note="the deletion")
    wire.record("DELETE", f"{path}/{made.body[0]['id']}", note="the deletion again")


def case_conversation_busy(wire, stub):
    """A second message to a conversation while the first one's run is under way."""
    agent = Agent(wire)
    path = f"/v1/conversations/{_conversation(wire, agent)[0]['id']}/messages"
    first = []

    def send(**more):
        asked = {"messages": [{"role": "user", "content": "SLEEP 2\nSAY First."}], **more}
        first.append(wire.ask("POST", path, asked))

    for more in ({"streaming": False}, {"background": True}):
        thread = threading.Thread(target=send, kwargs=more)
        thread.start()
        time.sleep(0.7)
        agent.say("SAY Second.", f"the second message, {more}", path=path, **more)
        thread.join()
        said = [m.get("content") for m in first.pop().of("assistant_message")]
        wire.show("the first message's answer", said)
