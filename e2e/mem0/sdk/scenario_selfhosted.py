"""The self-hosted server's dialect, over plain HTTP: it has no SDK of its own."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))
from run import FACTS, UNKNOWN_ID, Run, options  # noqa: E402

import requests  # noqa: E402

given = options(
    (("--admin-key",), {"default": os.environ.get("ADMIN_API_KEY", "e2e-admin-key")}),
)
run = Run(given)
session = requests.Session()
session.trust_env = False
user_id = f"erin-{given.suffix}"
run_id = f"task-{given.suffix}"


def call(method, path, body=None, key=given.key, **query):
    """Status and body: here an error is an answer like any other."""
    headers = {"X-API-Key": key} if key else {}
    response = session.request(method, given.base + path, json=body, params=query or None, headers=headers, timeout=30)
    kind = response.headers.get("content-type", "").partition(";")[0]
    answer = response.json() if kind == "application/json" else kind
    return {"status": response.status_code, "body": answer}


def step(name, *arguments, show=None, **keywords):
    return run.step(name, lambda: call(*arguments, **keywords), show)["body"]


def said(content, role="user"):
    return [{"role": role, "content": content}]


def by_text(answer):
    """The engine lists in the order of its random ids."""
    results = sorted(answer["body"]["results"], key=lambda row: row["memory"])
    return {**answer, "body": {"results": results}}


# ---- add
metadata = {"big": 9007199254740993, "whole": 1.0, "nested": {"Keep_Case": [1, None, True]}}
extracted = step(
    "add_infer",
    "POST",
    "/memories",
    {"messages": said("I like chess\nMy car is a Volvo"), "user_id": user_id, "metadata": metadata},
)
step("add_infer_nothing", "POST", "/memories", {"messages": said("Who are you?"), "user_id": user_id})
ids = []
for number, fact in enumerate(FACTS):
    body = {"messages": said(fact), "user_id": user_id, "infer": False, "metadata": {"number": number}}
    ids.append(step(f"add_verbatim_{number}", "POST", "/memories", body)["results"][0]["id"])
step(
    "add_conversation",
    "POST",
    "/memories",
    {
        "messages": said("Draft the memo") + said("The memo is drafted", "assistant"),
        "agent_id": f"writer-{given.suffix}",
        "run_id": run_id,
        "infer": False,
    },
)
step("add_expired", "POST", "/memories", {
    "messages": said("The offer ends soon"), "user_id": user_id, "infer": False, "expiration_date": "2001-01-01",
})

# ---- read
step("list", "GET", "/memories", user_id=user_id, show=by_text)
step("list_expired", "GET", "/memories", user_id=user_id, show_expired="true", show=by_text)
step("list_run", "GET", "/memories", run_id=run_id, show=by_text)
step("list_limited", "GET", "/memories", user_id=user_id, top_k=3, show=lambda a: len(a["body"]["results"]))
step("search", "POST", "/search", {"query": "oat milk coffee", "user_id": user_id, "top_k": 3})
step("search_filters", "POST", "/search", {
    "query": "archived invoices", "filters": {"user_id": user_id, "number": {"in": [5, 6]}}, "explain": True,
})
step("get", "GET", f"/memories/{ids[2]}")
step("get_extracted", "GET", f"/memories/{extracted['results'][0]['id']}")

# ---- change
step("update_text", "PUT", f"/memories/{ids[2]}", {"text": "Alice prefers almond milk"})
step("update_metadata", "PUT", f"/memories/{ids[2]}", {"metadata": {"checked": True}})
step("get_updated", "GET", f"/memories/{ids[2]}")
step("history", "GET", f"/memories/{ids[2]}/history")
step("entities", "GET", "/entities", show=lambda a: run.ours(a["body"]))

# ---- errors
step("get_unknown", "GET", f"/memories/{UNKNOWN_ID}")
step("update_unknown", "PUT", f"/memories/{UNKNOWN_ID}", {"text": "x"})
step("update_nothing", "PUT", f"/memories/{ids[2]}", {})
step("delete_unknown", "DELETE", f"/memories/{UNKNOWN_ID}")
step("add_without_id", "POST", "/memories", {"messages": said("x")})
step("add_malformed", "POST", "/memories", {"messages": "not a list", "user_id": user_id})
step("search_without_scope", "POST", "/search", {"query": "anything"})
step("trailing_slash", "GET", "/memories/", user_id=user_id)
step("hosted_key_is_unknown_here", "GET", "/memories", user_id=user_id, key="m0-hosted")
step("no_key", "GET", "/memories", user_id=user_id, key=None)
step("list_whole_store", "GET", "/memories")
step("delete_all_needs_admin", "DELETE", "/memories", user_id=user_id)
step("configure_needs_admin", "POST", "/configure", {"custom_instructions": "obey"})

# ---- delete
step("delete", "DELETE", f"/memories/{ids[2]}")
step("get_deleted", "GET", f"/memories/{ids[2]}")
step("history_of_deleted", "GET", f"/memories/{ids[2]}/history")
step("delete_all_without_id", "DELETE", "/memories", key=given.admin_key)
step("delete_all", "DELETE", "/memories", user_id=user_id, key=given.admin_key)
step("delete_entity", "DELETE", f"/entities/agent/writer-{given.suffix}", key=given.admin_key)
step("list_after_delete", "GET", "/memories", user_id=user_id)
