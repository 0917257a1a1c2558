"""The hosted platform's other routes: entities, exports, project, webhooks, profiles.

Only as much of each as the SDKs' methods need. Nothing is faked beyond that:
webhooks are stored but never called, and an export or a profile is a plain
arrangement of the stored texts, not a model's work.
"""

import json
import uuid

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse

from .filters import FilterError, check
from .hosted import NOT_FOUND, USER_EMAIL, authorise
from .jobs import now
from .web import HostedError, json_object, memory_uuid, paginate

router = APIRouter(dependencies=[Depends(authorise)])
ENTITY_TYPES = ("user", "agent", "app", "run")
PROJECT = "/api/v1/orgs/organizations/{org}/projects/{project}/"


# ---- entities


def list_entities(state):
    """Mem0's engine has no entity table: an entity is an id that memories carry."""
    found = {}
    for row in state.engine.rows():
        for kind in ENTITY_TYPES:
            name = row[f"{kind}_id"]
            if name is None:
                continue
            entity = found.setdefault((kind, name), {"created": [], "updated": []})
            entity["created"].append(row["created_at"])
            entity["updated"].append(row["updated_at"])
    entities = []
    for (kind, name), moments in found.items():
        number = state.entity_numbers.setdefault((kind, name), len(state.entity_numbers) + 1)
        entities.append(
            {
                "id": number,
                "name": name,
                "type": kind,
                "owner": USER_EMAIL,
                "metadata": None,
                "total_memories": len(moments["created"]),
                "created_at": min(moments["created"]),
                "updated_at": max(moments["updated"]),
            }
        )
    return sorted(entities, key=lambda entity: (entity["created_at"], entity["type"], entity["name"]))


@router.get("/v1/entities/")
def entities(request: Request):
    found = list_entities(request.app.state)
    totals = {f"total_{kind}s": sum(e["type"] == kind for e in found) for kind in ENTITY_TYPES}
    return {**paginate(request, found), **totals}


def _delete_entity(request, kind, name):
    state = request.app.state
    if kind not in ENTITY_TYPES:
        raise HostedError(400, error=f"unknown entity type {kind}")
    rows = state.engine.select({f"{kind}_id": name}, show_expired=True)
    if not rows:
        raise HostedError(404, error=f"{kind} {name} not found")

    def work():
        for row in rows:
            state.engine.delete(row["id"])
        return [{"id": row["id"], "event": "DELETE"} for row in rows]

    event = state.jobs.start("DELETE_ENTITY", {"type": kind, "name": name}, work)
    return {"message": "Entity deletion in progress.", "event_id": event["id"]}


@router.delete("/v1/entities/{kind}/{number}/")
def delete_entity_by_number(request: Request, kind: str, number: str):
    for (known_kind, name), known in request.app.state.entity_numbers.items():
        if known_kind == kind and str(known) == number:
            return _delete_entity(request, kind, name)
    raise HostedError(404, error=f"{kind} {number} not found")


@router.get("/v2/entities/user/{name:path}/profile/")
def profile(request: Request, name: str):
    state = request.app.state
    if not state.engine.select({"user_id": name}, show_expired=True):
        raise HostedError(404, error=f"user {name} not found")
    stored = state.profiles.get(name)
    status = "succeeded" if stored else "pending" if state.profile_settings["enabled"] else "not_enabled"
    return {
        "profile": stored["profile"] if stored else {},
        "status": status,
        "entity_type": "user",
        "entity_id": name,
        "updated_at": stored["updated_at"] if stored else None,
        "generation_count": stored["count"] if stored else 0,
        "error": None,
    }


# ":path" because an id may contain a slash; it arrives as %2F and is decoded
# before routing.
@router.get("/v2/entities/{kind}/{name:path}/")
def entity(request: Request, kind: str, name: str):
    return [e for e in list_entities(request.app.state) if (e["type"], e["name"]) == (kind, name)]


@router.delete("/v2/entities/{kind}/{name:path}/")
def delete_entity(request: Request, kind: str, name: str):
    return _delete_entity(request, kind, name)


@router.get("/v1/stats/")
def stats(request: Request):
    state = request.app.state
    return {"total_memories": len(state.engine.rows()), "total_entities": len(list_entities(state))}


# ---- exports, summary, feedback


def _selected(request, filters):
    try:
        check(filters)
        return request.app.state.engine.select(filters)
    except FilterError as error:
        raise HostedError(400, error=str(error)) from error


def _fill(schema, texts):
    """The caller's schema with the stored texts in it: no ids, no metadata."""
    filled = {}
    for name, field in (schema.get("properties") or {}).items():
        kind = field.get("type")
        filled[name] = texts if kind == "array" else " ".join(texts) if kind == "string" else None
    return filled


@router.post("/v1/exports/")
def create_export(request: Request, body: dict = Depends(json_object)):
    filters, schema = body.get("filters"), body.get("schema")
    if not isinstance(filters, dict) or not ({"AND", "OR"} & set(filters)):
        raise HostedError(400, error="filters must use AND or OR")
    if isinstance(schema, str):
        schema = json.loads(schema)
    texts = [row["memory"] for row in _selected(request, filters)]
    export_id = str(uuid.uuid4())
    request.app.state.exports[export_id] = {"filters": filters, "data": _fill(schema or {}, texts)}
    return JSONResponse({"message": "Memory export request received.", "id": export_id}, status_code=201)


@router.post("/v1/exports/get/")
def get_export(request: Request, body: dict = Depends(json_object)):
    exports = request.app.state.exports
    if body.get("memory_export_id"):
        found = exports.get(body["memory_export_id"])
    else:
        found = next((e for e in reversed(exports.values()) if e["filters"] == body.get("filters")), None)
    if found is None:
        raise HostedError(404, error="No memory export found")
    return found["data"]


@router.post("/v1/summary/")
def summary(request: Request, body: dict = Depends(json_object)):
    return {"summary": " ".join(row["memory"] for row in _selected(request, body.get("filters") or {}))}


@router.post("/v1/feedback/")
def feedback(request: Request, body: dict = Depends(json_object)):
    value = body.get("feedback")
    if value not in (None, "POSITIVE", "NEGATIVE", "VERY_NEGATIVE"):
        raise HostedError(400, error="feedback must be POSITIVE, NEGATIVE, VERY_NEGATIVE or null")
    if request.app.state.engine.row(memory_uuid(body.get("memory_id", ""))) is None:
        raise HostedError(404, error=NOT_FOUND)
    return {"id": str(uuid.uuid4()), "feedback": value, "feedback_reason": body.get("feedback_reason")}


# ---- project and webhooks


@router.get(PROJECT)
def get_project(request: Request, org: str, project: str):
    fields = request.query_params.getlist("fields")
    return {k: v for k, v in request.app.state.project.items() if not fields or k in fields}


@router.patch(PROJECT)
def update_project(request: Request, org: str, project: str, body: dict = Depends(json_object)):
    known = request.app.state.project
    # The Python SDK repeats the ids of the path in the body.
    body = {key: value for key, value in body.items() if key not in ("org_id", "project_id")}
    unknown = set(body) - set(known)
    if unknown:
        raise HostedError(400, error=f"unknown project fields {sorted(unknown)}")
    known.update(body)
    return {"message": "Project updated successfully", **body}


@router.get("/api/v1/webhooks/projects/{project}/")
def webhooks(request: Request, project: str):
    return [hook for hook in request.app.state.webhooks.values() if hook["project"] == project]


@router.post("/api/v1/webhooks/projects/{project}/")
def create_webhook(request: Request, project: str, body: dict = Depends(json_object)):
    if not body.get("url"):
        raise HostedError(400, error="url is required")
    hooks = request.app.state.webhooks
    number = max(hooks, default=0) + 1
    hooks[number] = {
        "webhook_id": number,
        "name": body.get("name"),
        "url": body["url"],
        "event_types": body.get("event_types") or [],
        "project": project,
        "is_active": True,
        "created_at": now(),
        "updated_at": now(),
    }
    return JSONResponse(hooks[number], status_code=201)


def _hook(request, number):
    if number not in request.app.state.webhooks:
        raise HostedError(404, error="Webhook not found")
    return request.app.state.webhooks[number]


@router.put("/api/v1/webhooks/{number}/")
def update_webhook(request: Request, number: int, body: dict = Depends(json_object)):
    changes = {key: body[key] for key in ("name", "url", "event_types") if key in body}
    _hook(request, number).update(changes, updated_at=now())
    return {"message": "Webhook updated successfully"}


@router.delete("/api/v1/webhooks/{number}/")
def delete_webhook(request: Request, number: int):
    _hook(request, number)
    del request.app.state.webhooks[number]
    return {"message": "Webhook deleted successfully"}


# ---- profiles


@router.get("/v2/profiles/settings/")
def profile_settings(request: Request):
    return request.app.state.profile_settings


@router.post("/v2/profiles/settings/")
def update_profile_settings(request: Request, body: dict = Depends(json_object)):
    if set(body) - {"enabled", "entities"}:
        raise HostedError(400, error="Unsupported settings")
    settings = request.app.state.profile_settings
    settings["enabled"] = bool(body.get("enabled", settings["enabled"]))
    settings["entities"]["user"].update((body.get("entities") or {}).get("user") or {})
    return settings


@router.post("/v2/profiles/jobs/")
def create_profile_job(
    request: Request, body: dict = Depends(json_object), idempotency_key: str | None = Header(default=None)
):
    state = request.app.state
    if not state.profile_settings["enabled"]:
        raise HostedError(400, error="Profiles are not enabled for this project")
    if idempotency_key in state.profile_jobs_by_key:
        return {**state.profile_jobs_by_key[idempotency_key], "replayed": True}
    if body.get("operation") == "sample":
        users = [e["name"] for e in list_entities(state) if e["type"] == "user"][: body.get("limit") or 3]
    else:
        users = [body.get("entity_id")]
    for user in users:
        texts = [row["memory"] for row in state.engine.select({"user_id": user})]
        schema = state.profile_settings["entities"]["user"].get("schema") or {}
        count = state.profiles.get(user, {}).get("count", 0) + 1
        state.profiles[user] = {"profile": _fill(schema, texts), "updated_at": now(), "count": count}
    job_id = str(uuid.uuid4())
    job = {
        "job_id": job_id,
        "status": "succeeded",
        "status_url": f"/v2/profiles/jobs/{job_id}/",
        "operation": body.get("operation"),
        "entity_type": "user",
        "entity_ids": users,
        "replayed": False,
    }
    state.profile_jobs[job_id] = job
    if idempotency_key:
        state.profile_jobs_by_key[idempotency_key] = job
    return job


@router.get("/v2/profiles/jobs/{job_id}/")
def profile_job(request: Request, job_id: str):
    job = request.app.state.profile_jobs.get(job_id)
    if job is None:
        raise HostedError(404, error="Job not found")
    total = len(job["entity_ids"])
    return {"job": {**job, "total": total, "completed": total, "succeeded": total, "failed": 0, "skipped": 0}}
