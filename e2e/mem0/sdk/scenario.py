"""The Python SDK: mem0ai 2.x (/v3 routes) and, unchanged, the last 1.x (/v1, /v2)."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from run import FACTS, UNKNOWN_ID, Run, options  # noqa: E402

from mem0 import MemoryClient  # noqa: E402

given = options((("--with-admin",), {"action": "store_true"}))
run = Run(given)
modern = int(importlib.metadata.version("mem0ai").split(".")[0]) >= 2
user_id = f"dave{'' if modern else '1'}-{given.suffix}"
agent_id = f"helper{'' if modern else '1'}-{given.suffix}"
filters = {"user_id": user_id}


def said(content):
    return [{"role": "user", "content": content}]


# The constructor pings, and a proxy that breaks that breaks everything.
client = run.step(
    "construct",
    lambda: MemoryClient(api_key=given.key, host=given.base),
    lambda c: {"org": c.org_id, "project": c.project_id, "email": c.user_email},
)


def event_of(answer):
    entry = answer[0] if isinstance(answer, list) else answer
    return entry["event_id"]


def first_id(answer):
    results = answer["results"] if isinstance(answer, dict) else answer
    return results[0]["id"]


# ---- add
# A big integer and a whole float: a proxy that reads numbers as doubles spoils both.
metadata = {"big": 9007199254740993, "whole": 1.0, "nested": {"Keep_Case": [1, None, True]}}
added = run.step(
    "add_infer", lambda: client.add(said("I like jazz\nMy cat is Momo"), user_id=user_id, metadata=metadata)
)
finished = run.step("event_of_add", lambda: run.finished(event_of(added)))
ids = []
for number, fact in enumerate(FACTS):
    kept = run.step(
        f"add_verbatim_{number}",
        lambda: client.add(said(fact), user_id=user_id, infer=False, metadata={"number": number}),
    )
    ids.append(first_id(kept))
if modern:
    from mem0.client.types import AddMemoryOptions

    run.step(
        "add_with_ids_in_filters",
        lambda: client.add(said("Ids may hide in filters"), AddMemoryOptions(filters={"agent_id": agent_id}, infer=False)),
    )
else:
    run.step("add_for_agent", lambda: client.add(said("Agents too"), agent_id=agent_id, infer=False))
run.step("add_string", lambda: client.add("A plain string is a user message", user_id=user_id, infer=False))

# ---- read
run.step("search", lambda: client.search("oat milk coffee", filters=filters, top_k=3))
run.step(
    "search_filtered",
    lambda: client.search("archived invoices", filters={"AND": [filters, {"metadata": {"number": 6}}]}),
)
run.step("list", lambda: client.get_all(filters=filters))
page = 1
while True:
    listed = run.step(f"list_page_{page}", lambda: client.get_all(filters=filters, page=page, page_size=4))
    if not listed["next"]:
        break
    page += 1
run.step("get", lambda: client.get(ids[3]))
run.step("get_extracted", lambda: client.get(finished["results"][0]["id"]))

# ---- change
run.step("update", lambda: client.update(ids[3], text="Staging holds synthetic rows", metadata={"number": 30}))
run.step("get_updated", lambda: client.get(ids[3]))
run.step("history", lambda: client.history(ids[3]))
changes = [{"memory_id": ids[0], "text": "The key never rotates"}, {"memory_id": ids[1], "text": "Payments stopped"}]
run.step("batch_update", lambda: client.batch_update(changes))
run.step("get_batch_updated", lambda: client.get(ids[1]))
if modern:
    run.step("update_expiry", lambda: client.update(ids[4], expiration_date="2001-01-01"))
    run.step("list_without_expired", lambda: client.get_all(filters=filters), lambda a: a["count"])
    run.step("list_with_expired", lambda: client.get_all(filters=filters, show_expired=True), lambda a: a["count"])
if modern:
    run.step("feedback", lambda: client.feedback(ids[0], feedback="POSITIVE"))
else:
    # 1.0.11 sends the request and then trips over its own telemetry call.
    run.fails("feedback", lambda: client.feedback(ids[0], feedback="POSITIVE"))
run.step("summary", lambda: client.get_summary(filters=filters))
run.step("users", client.users, lambda a: run.ours(a["results"]))

# ---- errors
run.fails("wrong_arguments", lambda: client.get_all(filters={"colour": "red"}))
run.fails("get_unknown", lambda: client.get(UNKNOWN_ID))
run.fails("get_not_an_id", lambda: client.get("not-an-id"))
run.fails("update_unknown", lambda: client.update(UNKNOWN_ID, text="x"))
run.fails("delete_unknown", lambda: client.delete(UNKNOWN_ID))
run.fails("add_without_id", lambda: client.add(said("x")))
run.fails("bad_key", lambda: MemoryClient(api_key="not-a-mem0-key", host=given.base))

# ---- administration: a policy may well refuse it, so it is asked for
if given.with_admin:
    run.step("project_update", lambda: client.project.update(custom_instructions="Keep it short"))
    run.step("project_get", lambda: client.project.get(fields=["custom_instructions"]))
    hook = run.step(
        "webhook_create",
        lambda: client.create_webhook("http://127.0.0.1:9/", f"hook-{given.suffix}", client.project_id, ["memory_add"]),
    )
    run.step("webhook_list", lambda: client.get_webhooks(client.project_id), run.ours)
    run.step("webhook_update", lambda: client.update_webhook(hook["webhook_id"], url="http://127.0.0.1:10/"))
    run.step("webhook_delete", lambda: client.delete_webhook(hook["webhook_id"]))
    if modern:
        schema = {"type": "object", "properties": {"facts": {"type": "array", "description": "what is known"}}}
        run.step("profile_settings", lambda: client.update_profile_settings(enabled=True, schema=schema))
        job = run.step("profile_generate", lambda: client.generate_profile(user_id))
        run.step("profile_job", lambda: client.get_profile_job(job["status_url"]))
        run.step("profile", lambda: client.get_profile(user_id))

# ---- delete
run.step("batch_delete", lambda: client.batch_delete([{"memory_id": ids[0]}, {"memory_id": ids[1]}]))
run.step("delete", lambda: client.delete(ids[3]))
run.fails("get_deleted", lambda: client.get(ids[3]))
deletion = run.step("delete_all", lambda: client.delete_all(user_id=user_id))
run.step("event_of_delete_all", lambda: run.finished(deletion["event_id"]))
run.step("delete_agent", lambda: client.delete_users(agent_id=agent_id))
run.step("list_after_delete", lambda: client.get_all(filters=filters))
