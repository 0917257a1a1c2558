"""The same pauses on streams (V3 loop)."""

import time

from .agent import ENDING, Agent, approve, call, deny, insert, returned


def case_stream_steps(wire, stub):
    """streaming without stream_tokens: each message arrives whole."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True}
    paused = agent.say(insert("Likes tea.") + ENDING, "a message", **more)
    assert paused.stop_reason == "requires_approval", paused.raw
    ended = agent.reply(approve("call_0000"), "the approval", **more)
    assert ended.stop_reason == "end_turn", ended.raw
    assert agent.value() == "Ann.\nLikes tea."


def case_stream_tokens(wire, stub):
    """stream_tokens: the waiting call comes in pieces."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True, "stream_tokens": True}
    paused = agent.say(insert("Likes tea.") + ENDING, "a message", **more)
    assert paused.stop_reason == "requires_approval", paused.raw
    agent.reply(approve("call_0000"), "the approval", **more)
    agent.history()
    assert agent.value() == "Ann.\nLikes tea."


def case_stream_tokens_deny(wire, stub):
    """stream_tokens and a denial: the stream says nothing of the denied call, the
    history does."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True, "stream_tokens": True}
    agent.say(insert("Likes tea.") + ENDING, record=False, **more)
    agent.reply(deny("policy: no", "call_0000"), "the denial", **more)
    assert agent.value() == "Ann."
    agent.history()


def case_stream_steps_deny(wire, stub):
    """A denial on a stream of whole messages."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True}
    agent.say(insert("Likes tea.") + ENDING, record=False, **more)
    agent.reply(deny("policy: no", "call_0000"), "the denial", **more)
    assert agent.value() == "Ann."


def case_stream_tokens_returned(wire, stub):
    """stream_tokens and a tool return made by the gate: not on the stream either."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True, "stream_tokens": True}
    agent.say(insert("Likes tea.") + ENDING, record=False, **more)
    agent.reply(returned("done by the gate", "call_0000"), "the gate's answer", **more)


def case_stream_tokens_parallel(wire, stub):
    """stream_tokens and parallel calls, one of them not shadowed."""
    agent = Agent(wire, parallel_tool_calls=True)
    tools = agent.client_tools("memory_insert")
    more = {"client_tools": tools, "streaming": True, "stream_tokens": True}
    script = "\n".join([call("conversation_search", query="tea"), insert("one"), insert("two")])
    agent.say(script + ENDING, "a message", **more)
    agent.reply(approve("call_0001") + deny("no", "call_0002"), "the answer", **more)
    agent.history()
    assert agent.value() == "Ann.\none"


def case_stream_steps_parallel(wire, stub):
    """Whole messages and parallel calls, one of them not shadowed."""
    agent = Agent(wire, parallel_tool_calls=True)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True}
    script = "\n".join([call("conversation_search", query="tea"), insert("one")])
    agent.say(script + ENDING, "a message", **more)
    agent.reply(approve("call_0001"), "the answer", **more)


def case_stream_not_gated(wire, stub):
    """For comparison: the same run without a gate, in pieces and whole."""
    agent = Agent(wire)
    agent.say(insert("one") + ENDING, "whole messages", streaming=True)
    agent.say(insert("two") + ENDING, "in pieces", streaming=True, stream_tokens=True)
    agent.say(insert("three") + ENDING, "JSON")
    agent.history()


def case_stream_old_route(wire, stub):
    """The deprecated route that always streams takes client tools too."""
    agent = Agent(wire)
    tools = agent.client_tools("memory_insert")
    agent.say(insert("one") + ENDING, "a message", path=f"{agent.messages}/stream", client_tools=tools)
    agent.reply(approve("call_0000"), "the approval", path=f"{agent.messages}/stream", client_tools=tools)


def case_stream_background(wire, stub):
    """background: the stream can be resumed, also the part after the pause; and what a
    resumed stream of the first run says after the second has ended."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True, "background": True}
    first = agent.say(insert("one") + ENDING, "a message", **more)
    run = first.events[0]["run_id"]
    wire.record("POST", f"/v1/runs/{run}/stream", {"starting_after": 0}, "the first run again")
    wire.record("GET", f"/v1/runs/{run}", note="the first run while the call waits")
    second = agent.reply(approve("call_0000"), "the approval", **more)
    wire.record("POST", f"/v1/runs/{second.events[0]['run_id']}/stream", {"starting_after": 0}, "the second run again")
    wire.record("POST", f"/v1/runs/{run}/stream", {"starting_after": 1}, "the first run, from its second event")
    wire.record("GET", f"/v1/runs/{run}/messages?order=asc", note="messages of the first run")


def case_stream_hang_up(wire, stub):
    """The client hangs up while the model thinks. The run goes on and ends in a pause
    that nobody knows of; the next message is refused."""
    agent = Agent(wire)
    more = {"client_tools": agent.client_tools("memory_insert"), "streaming": True}
    script = "SLEEP 1\n" + insert("one") + ENDING
    asked = {"messages": [{"role": "user", "content": script}], **more}
    cut = wire.record("POST", agent.messages, asked, "a message", cut_after='"ping"')
    for _ in range(2000):
        if agent.pending()[0]:
            break
    # The pause is written before the run is closed, if it is closed at all.
    time.sleep(1)
    agent.waiting("what waits two seconds later")
    wire.record("GET", f"/v1/runs/{cut.events[0]['run_id']}", note="its run")
    agent.say("SAY Hello.", "the next message")
