"""Persistent approval rules, the older loops, and rules that approvals skip."""

from .agent import ENDING, Agent, approve, call, deny, insert, returned

APPROVAL = {"requires_approval": True}


def _gated(wire, tool, **settings):
    agent = Agent(wire, **settings)
    wire.record("PATCH", f"{agent.path}/tools/approval/{tool}", APPROVAL, "the rule")
    return agent


def case_rule(wire, stub):
    """requires_approval on the tool: the same pause for every client, without
    client_tools; approve, deny and answer with a return."""
    agent = _gated(wire, "memory_insert")
    agent.say(insert("one") + ENDING, "a message")
    agent.waiting()
    agents = wire.ask("GET", f"/v1/agents/?last_stop_reason=requires_approval&include=agent.pending_approval&limit=50").body
    wire.show("GET /v1/agents/?last_stop_reason=requires_approval finds it", [a["id"] for a in agents if a["id"] == agent.id])
    runs = wire.ask("GET", f"/v1/runs/?stop_reason=requires_approval&agent_id={agent.id}").body
    wire.show("GET /v1/runs/?stop_reason=requires_approval finds its run", [{k: r[k] for k in ("id", "status", "stop_reason")} for r in runs])
    agent.reply(approve("call_0000"), "approved")
    agent.say(insert("two") + ENDING, record=False)
    agent.reply(deny("no", "call_0001"), "denied")
    agent.say(insert("three") + ENDING, record=False)
    agent.reply(returned("elsewhere", "call_0002"), "answered")
    agent.block()
    wire.record("PATCH", f"{agent.path}/tools/approval/memory_insert", {"requires_approval": False}, "the rule is taken back")
    agent.say(insert("four") + ENDING, "no pause any more")


def case_rule_stream(wire, stub):
    """The same with tokens streamed."""
    agent = _gated(wire, "memory_insert")
    agent.say(insert("one") + ENDING, "a message", streaming=True, stream_tokens=True)
    agent.reply(approve("call_0000"), "approved", streaming=True, stream_tokens=True)


def case_rule_async(wire, stub):
    """messages/async: a rule pauses the background run, client_tools do not."""
    agent = Agent(wire)
    tools = agent.client_tools("memory_insert")
    _background(wire, agent, insert("one") + ENDING, "client_tools only", client_tools=tools)
    agent.block(note="the block: written")
    wire.record("PATCH", f"{agent.path}/tools/approval/memory_insert", APPROVAL, "the rule")
    _background(wire, agent, insert("two") + ENDING, "with the rule")
    agent.block(note="the block: not written")
    agent.waiting()
    agent.reply(approve("call_0001"), "approved")


def _background(wire, agent, text, note, **more):
    asked = {"messages": [{"role": "user", "content": text}], **more}
    agent.finished(wire.record("POST", f"{agent.messages}/async", asked, note).body["id"])


def case_rule_from_the_start(wire, stub):
    """The rule among tool_rules when the agent is made, and PATCH of tool_rules."""
    agent = Agent(wire, tool_rules=[{"type": "requires_approval", "tool_name": "memory_insert"}])
    agent.waiting("the rules")
    wire.record("PATCH", agent.path, {"tool_rules": []}, "the rules replaced").body
    agent.say(insert("one") + ENDING, "a message is not paused any more")


def case_rule_and_shadow(wire, stub):
    """A rule and a shadow on one tool, and the client's list naming another."""
    agent = _gated(wire, "memory_insert", parallel_tool_calls=True)
    tools = agent.client_tools("memory_replace")
    script = insert("one") + "\n" + call("memory_replace", label="human", old_string="Ann.", new_string="Bob.")
    agent.say(script + ENDING, "a message", client_tools=tools)
    agent.reply(approve("call_0000", "call_0001"), "both approved", client_tools=tools)
    agent.block()


def case_rule_violation(wire, stub):
    """A call that the tool rules forbid is refused; once it waited and was approved
    it runs all the same."""
    rules = [{"type": "max_count_per_step", "tool_name": "memory_insert", "max_count_limit": 1}]
    agent = Agent(wire, tool_rules=rules)
    script = insert("one") + "\nTHEN\n" + insert("two") + ENDING
    agent.say(script, "no gate: the second call is refused")
    agent.block(note="the block")
    tools = agent.client_tools("memory_insert")
    agent.say(script, "a shadow", client_tools=tools)
    agent.reply(approve("call_0002"), "the first approval", client_tools=tools)
    agent.reply(approve("call_0003"), "the second approval", client_tools=tools)
    agent.block(note="the block in the end")


def _v2(wire):
    agent = Agent(wire, agent_type="memgpt_v2_agent")
    wire.record("PATCH", f"{agent.path}/tools/approval/memory_insert", APPROVAL, "the rule")
    return agent


def _both(agent, yes, note, reason=None, **more):
    """The answer in the new and in the old form at once."""
    request, ids = agent.pending()
    approvals = approve(*ids) if yes else deny(reason, *ids)
    message = {"type": "approval", "approvals": approvals, "approve": yes, "approval_request_id": request, "reason": reason}
    return agent.wire.record("POST", agent.messages, {"messages": [message], **more}, note)


def case_v2_shadow(wire, stub):
    """The V2 loop: client_tools do not pause it."""
    agent = Agent(wire, agent_type="memgpt_v2_agent")
    tools = agent.client_tools("memory_insert")
    agent.say(insert("one") + ENDING, "a message", client_tools=tools)
    agent.block(note="the block: written")


def case_v2_rule_new_form(wire, stub):
    """The V2 loop with a rule, approved in the new form only: is the call run?"""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, "a message")
    agent.reply(approve(*agent.pending()[1]), "approved, the new form only")
    agent.block()
    agent.waiting("what waits now")


def case_v2_rule_deny_new_form(wire, stub):
    """The V2 loop with a rule, denied in the new form only."""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, record=False)
    agent.reply(deny("policy: no", *agent.pending()[1]), "denied, the new form only")
    agent.block()
    agent.waiting("what waits now")


def case_v2_rule_both_forms(wire, stub):
    """The V2 loop with a rule, answered in both forms at once: approved, then denied."""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, record=False)
    _both(agent, True, "approved")
    agent.block(note="the block after the approval")
    agent.say(insert("two") + ENDING, record=False)
    _both(agent, False, "denied", "policy: no")
    agent.block(note="the block after the denial")
    agent.history()


def case_v2_rule_old_form(wire, stub):
    """The V2 loop with a rule, approved in the old form only."""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, record=False)
    old = {"type": "approval", "approve": True, "approval_request_id": agent.pending()[0]}
    wire.record("POST", agent.messages, {"messages": [old]}, "approved, the old form only")
    agent.block()
    agent.waiting("what waits now")


def case_v2_rule_returned(wire, stub):
    """The V2 loop and an answer of type tool; a denial must end the pause then."""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, record=False)
    agent.reply(returned("done by the gate", *agent.pending()[1]), "the gate's answer")
    agent.waiting("what waits now")
    agent.block()
    _both(agent, False, "denied in both forms", "written by the gate")
    agent.waiting("what waits in the end")


def case_v2_rule_stream(wire, stub):
    """The V2 loop on a stream, whole messages and tokens."""
    agent = _v2(wire)
    agent.say(insert("one") + ENDING, "whole messages", streaming=True)
    _both(agent, True, "approved", streaming=True)
    more = {"streaming": True, "stream_tokens": True}
    agent.say(insert("two") + ENDING, "tokens", **more)
    _both(agent, True, "approved, tokens", **more)
    agent.block()
