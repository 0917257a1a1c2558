"""The hosted platform's memory routes (/v1, /v2, /v3), over the real engine."""

import json
from datetime import datetime, timezone

from fastapi import APIRouter, Depends, Request

from .filters import ENTITY_KEYS, FilterError, check
from .web import HostedError, json_object, memory_uuid, paginate, wants_page

ORG_ID = "org-e2e"
PROJECT_ID = "proj-e2e"
USER_EMAIL = "owner@example.com"
NOT_FOUND = "Memory not found!"
MAX_BATCH = 1000


def authorise(request: Request):
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme != "Token" or not key.startswith("m0-"):
        raise HostedError(401, detail="Invalid API key.")


router = APIRouter(dependencies=[Depends(authorise)])
QUEUED = "Memory processing has been queued for background execution"
DONE = "Memories added successfully"


@router.get("/v1/ping/")
def ping():
    return {"status": "ok", "org_id": ORG_ID, "project_id": PROJECT_ID, "user_email": USER_EMAIL}


# ---- add


def _scope(body):
    """Ids at the top level, or in filters as the Python option objects put them."""
    in_filters = body.get("filters") if isinstance(body.get("filters"), dict) else {}
    scope = {key: body.get(key, in_filters.get(key)) for key in ENTITY_KEYS}
    if not any(scope.values()):
        raise HostedError(400, error="At least one of user_id, agent_id, app_id or run_id is required")
    for key, value in scope.items():
        if value is not None and not isinstance(value, str):
            raise HostedError(400, error=f"{key} must be a string")
    return scope


def _text_only(messages):
    """URL parts are dropped: this backend fetches nothing from anywhere."""
    kept = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, dict):
            content = [content]
        if isinstance(content, list):
            parts = [p["text"] for p in content if isinstance(p, dict) and p.get("type") == "text"]
            content = " ".join(parts)
        if content:
            kept.append({**message, "content": content})
    return kept


def _add_work(request, body):
    messages = body.get("messages")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    facts = body.get("deduced_memories")
    if facts:
        messages = [{"role": "user", "content": fact} for fact in facts]
    if not isinstance(messages, list) or not messages:
        raise HostedError(400, error="messages must be a non-empty list")
    scope, engine = _scope(body), request.app.state.engine
    metadata = dict(body.get("metadata") or {})
    if body.get("timestamp") is not None:
        moment = datetime.fromtimestamp(float(body["timestamp"]), timezone.utc)
        metadata["created_at"] = moment.isoformat()
    prompt = body.get("custom_instructions") or request.app.state.project.get("custom_instructions")
    infer = body.get("infer", True) is not False

    def work():
        added = engine.add(
            _text_only(messages),
            scope,
            metadata=metadata,
            infer=infer,
            expiration_date=body.get("expiration_date"),
            prompt=prompt,
        )
        return [{"id": r["id"], "event": r["event"], "data": {"memory": r["memory"]}} for r in added]

    return infer, work


@router.post("/v3/memories/add/")
def add_v3(request: Request, body: dict = Depends(json_object)):
    infer, work = _add_work(request, body)
    jobs = request.app.state.jobs
    if infer:
        event = jobs.start("ADD", body, work)
        return {"message": QUEUED, "status": "PENDING", "event_id": event["id"]}
    results = work()
    event = jobs.record("ADD", body, results)
    return {"message": DONE, "status": "SUCCEEDED", "event_id": event["id"], "results": results}


@router.post("/v1/memories/")
def add_v1(request: Request, body: dict = Depends(json_object)):
    infer, work = _add_work(request, body)
    jobs = request.app.state.jobs
    if infer and body.get("async_mode", True):
        event = jobs.start("ADD", body, work)
        answer = [{"message": QUEUED, "status": "PENDING", "event_id": event["id"]}]
    else:
        answer = work()
        jobs.record("ADD", body, answer)
    if body.get("output_format") == "v1.1" and body.get("version") == "v2":
        return {"results": answer, "relations": []}
    return answer


# ---- read


def _shape(row, run_key="session_id", fields=None):
    row = dict(row)
    row[run_key] = row.pop("run_id")
    # A projection really drops everything else, ids and metadata included.
    return {key: row[key] for key in fields if key in row} if fields else row


def _checked(filters):
    if not isinstance(filters, dict) or not filters:
        raise HostedError(400, error="filters is required and must be a non-empty object")
    try:
        check(filters)
    except FilterError as error:
        raise HostedError(400, error=str(error)) from error
    return filters


def _narrow(body):
    """The list parameters that stand beside filters."""
    start, end = body.get("start_date"), body.get("end_date")
    keywords = body.get("keywords")
    metadata = body.get("metadata") or {}

    def passes(row):
        created = row["created_at"] or ""
        if (start and created < start) or (end and created[:10] > end[:10]):
            return False
        if keywords and str(keywords).lower() not in row["memory"].lower():
            return False
        stored = row["metadata"] or {}
        return all(stored.get(key) == value for key, value in metadata.items())

    return passes


def _search(request, body, filters, run_key, threshold):
    query = body.get("query")
    if not isinstance(query, str) or not query.strip():
        raise HostedError(400, error="query is required")
    hits = request.app.state.engine.search(
        query,
        filters,
        top_k=min(int(body.get("top_k") or body.get("limit") or 10), 1000),
        threshold=threshold if body.get("threshold") is None else float(body["threshold"]),
        show_expired=bool(body.get("show_expired")),
        extra=_narrow(body),
    )
    return [_shape(hit, run_key, body.get("fields")) for hit in hits]


@router.post("/v3/memories/search/")
def search_v3(request: Request, body: dict = Depends(json_object)):
    misplaced = [key for key in ENTITY_KEYS if key in body]
    if misplaced:
        raise HostedError(400, error=f"Top-level entity parameters {misplaced} are not supported; use filters")
    return {"results": _search(request, body, _checked(body.get("filters")), "run_id", 0.1)}


@router.post("/v2/memories/search/")
def search_v2(request: Request, body: dict = Depends(json_object)):
    return _search(request, body, _checked(body.get("filters")), "session_id", 0.3)


@router.post("/v1/memories/search/")
def search_v1(request: Request, body: dict = Depends(json_object)):
    hits = _search(request, body, _scope_filter(body), "session_id", 0.1)
    return {"results": hits, "relations": []} if body.get("output_format") == "v1.1" else hits


def _scope_filter(params):
    filters = {key: params[key] for key in ENTITY_KEYS if params.get(key)}
    if not filters:
        raise HostedError(400, error="One of the filters: app_id, user_id, agent_id, run_id is required!")
    return filters


@router.post("/v3/memories/")
def list_v3(request: Request, body: dict = Depends(json_object)):
    rows = _listed(request, body, _checked(body.get("filters")))
    return paginate(request, rows, body)


@router.post("/v2/memories/")
def list_v2(request: Request, body: dict = Depends(json_object)):
    rows = _listed(request, body, _checked(body.get("filters")))
    return paginate(request, rows, body) if wants_page(request) else rows


@router.get("/v1/memories/")
def list_v1(request: Request):
    params = dict(request.query_params)
    params["metadata"] = _json_parameter(params)
    rows = _listed(request, params, _scope_filter(params))
    return paginate(request, rows) if wants_page(request) else rows[: int(params.get("limit", 100))]


def _listed(request, params, filters):
    fields = params.get("fields")
    if isinstance(fields, str):
        fields = fields.split(",")
    rows = request.app.state.engine.select(filters, bool(params.get("show_expired")), _narrow(params))
    return [_shape(row, fields=fields) for row in rows]


def _json_parameter(params):
    try:
        return json.loads(params.get("metadata") or "{}")
    except ValueError as error:
        raise HostedError(400, error="metadata must be JSON") from error


def _find(request, memory_id):
    row = request.app.state.engine.row(memory_uuid(memory_id))
    if row is None:
        raise HostedError(404, error=NOT_FOUND)
    return row


def _history(engine, entries, row):
    row = row or {}
    own = {key: row.get(key) for key in ("user_id", "agent_id", "app_id", "categories", "metadata")}
    for entry in entries:
        yield {
            **{key: entry[key] for key in ("id", "memory_id", "old_memory", "new_memory", "event")},
            **own,
            "session_id": row.get("run_id"),
            "input": engine.inputs.get(entry["memory_id"], []),
            "created_at": entry["created_at"],
            "updated_at": entry["updated_at"] or entry["created_at"],
        }


# Literal paths must be declared before {memory_id}.
@router.get("/v1/memories/events/")
def history_of_all(request: Request):
    engine = request.app.state.engine
    rows = [h for row in engine.rows() for h in _history(engine, engine.history(row["id"]), row)]
    return paginate(request, rows)


@router.get("/v1/memories/{memory_id}/history/")
def history(request: Request, memory_id: str):
    engine, memory_id = request.app.state.engine, memory_uuid(memory_id)
    entries = engine.history(memory_id)
    if not entries:
        raise HostedError(404, error=NOT_FOUND)
    row = engine.row(memory_id) or engine.deleted.get(memory_id)
    return list(_history(engine, entries, row))


@router.get("/v1/memories/{entity_type}/{entity_id}/")
def list_of_entity(request: Request, entity_type: str, entity_id: str):
    key = f"{entity_type}_id"
    if key not in ENTITY_KEYS:
        raise HostedError(404, detail="Not found.")
    engine = request.app.state.engine
    rows = engine.select({key: entity_id})
    return paginate(request, [{**_shape(r), "input": engine.inputs.get(r["id"], [])} for r in rows])


@router.get("/v1/memories/{memory_id}/")
def get_one(request: Request, memory_id: str):
    return _shape(_find(request, memory_id))


# ---- change and delete


def _update(request, memory_id, body):
    engine = request.app.state.engine
    changes = {key: body[key] for key in ("text", "metadata") if body.get(key) is not None}
    if "expiration_date" in body:
        changes["expiration_date"] = body["expiration_date"]
    if changes:
        engine.update(memory_id, replace_metadata=True, **changes)
    if body.get("timestamp") is not None:
        moment = datetime.fromtimestamp(float(body["timestamp"]), timezone.utc)
        engine.backdate(memory_id, moment.isoformat())
    elif not changes:
        raise HostedError(400, error="At least one of text, metadata, timestamp or expiration_date is required")


@router.put("/v1/memories/{memory_id}/")
def update_one(request: Request, memory_id: str, body: dict = Depends(json_object)):
    row = _find(request, memory_id)
    _update(request, row["id"], body)
    return _shape(_find(request, memory_id))


@router.delete("/v1/memories/{memory_id}/")
def delete_one(request: Request, memory_id: str):
    request.app.state.engine.delete(_find(request, memory_id)["id"])
    answer = {"message": "Memory deleted successfully!"}
    if request.query_params.get("delete_linked", "").lower() == "true":
        answer["cascade_count"] = 0  # the open-source engine links no versions
    return answer


@router.delete("/v1/memories/")
def delete_many(request: Request):
    params = dict(request.query_params)
    filters, engine = _scope_filter(params), request.app.state.engine
    narrow = _narrow({"metadata": _json_parameter(params)})

    def work():
        rows = engine.select(filters, True, narrow)
        for row in rows:
            engine.delete(row["id"])
        return [{"id": row["id"], "event": "DELETE"} for row in rows]

    event = request.app.state.jobs.start("DELETE_ALL", params, work)
    return {"message": "Delete in progress. Please wait a few minutes.", "event_id": event["id"]}


def _batch(request, body):
    items = body.get("memories")
    if not isinstance(items, list) or not items or len(items) > MAX_BATCH:
        raise HostedError(400, error=f"memories must be a list of 1 to {MAX_BATCH} items")
    for item in items:  # all or nothing: look before changing anything
        if not isinstance(item, dict) or "memory_id" not in item:
            raise HostedError(400, error="memory_id is required")
        _find(request, item["memory_id"])
    return items


@router.put("/v1/batch/")
def batch_update(request: Request, body: dict = Depends(json_object)):
    items = _batch(request, body)
    for item in items:
        _update(request, item["memory_id"], item)
    return {"message": f"Successfully updated {len(items)} memories"}


@router.delete("/v1/batch/")
def batch_delete(request: Request, body: dict = Depends(json_object)):
    items = _batch(request, body)
    for item in items:
        request.app.state.engine.delete(item["memory_id"])
    return {"message": f"Successfully deleted {len(items)} memories"}


# ---- events


@router.get("/v1/event/{event_id}/")
def event(request: Request, event_id: str):
    found = request.app.state.jobs.get(event_id)
    if found is None:
        raise HostedError(404, error="Event not found")
    return found


@router.get("/v1/events/")
def events(request: Request):
    return paginate(request, request.app.state.jobs.newest_first())
