"""The self-hosted server's dialect (no prefix, no trailing slash), over the real engine.

Written from the observed wire behaviour, not from Mem0's server code, which is
not published as a package and is not used here.
"""

import copy
import os
from typing import Any, Optional

from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import RedirectResponse
from mem0.utils.factory import EmbedderFactory, LlmFactory
from pydantic import BaseModel

from .core import WHOLE_STORE
from .hosted_admin import list_entities

SECRET_WORDS = ("api_key", "password", "secret", "token")


def caller(request: Request):
    """Who calls: "admin", "user", or 401. Keys are not bound to a user id in Mem0."""
    key = request.headers.get("x-api-key")
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if not key and scheme == "Bearer":
        key = credential
    admin_key = os.environ.get("ADMIN_API_KEY")
    if key and admin_key and key == admin_key:
        return "admin"
    if key and key.startswith("m0sk_"):
        return "user"
    # "Authorization: Token ..." ends here too: this dialect does not know it.
    raise HTTPException(401, "Not authenticated", headers={"WWW-Authenticate": "Bearer"})


def admin_only(who: str = Depends(caller)):
    if who != "admin":
        raise HTTPException(403, "Admin privileges required")
    return who


router = APIRouter(dependencies=[Depends(caller)])
public = APIRouter()


class Message(BaseModel):
    role: str
    content: str


class Add(BaseModel):
    messages: list[Message]
    user_id: Optional[str] = None
    agent_id: Optional[str] = None
    run_id: Optional[str] = None
    metadata: Optional[dict[str, Any]] = None
    expiration_date: Optional[str] = None
    infer: Optional[bool] = None
    memory_type: Optional[str] = None
    prompt: Optional[str] = None


class Change(BaseModel):
    text: Optional[str] = None
    metadata: Optional[dict[str, Any]] = None
    expiration_date: Optional[str] = None


class Search(BaseModel):
    query: str
    filters: Optional[dict[str, Any]] = None
    user_id: Optional[str] = None
    agent_id: Optional[str] = None
    run_id: Optional[str] = None
    top_k: Optional[int] = None
    threshold: Optional[float] = None
    explain: bool = False
    show_expired: bool = False


class Instructions(BaseModel):
    use_case: str


def _ids(source):
    ids = {key: getattr(source, key, None) for key in ("user_id", "agent_id", "run_id")}
    return {key: value for key, value in ids.items() if value}


def _query_ids(user_id, agent_id, run_id):
    ids = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    return {key: value for key, value in ids.items() if value}


def _known(engine, memory_id):
    if engine.memory.get(memory_id) is None:
        raise HTTPException(404, f"Memory {memory_id} not found")


@router.post("/memories")
def add(request: Request, body: Add):
    ids = _ids(body)
    if not ids:
        raise HTTPException(400, "At least one of user_id, agent_id or run_id is required.")
    engine = request.app.state.engine
    options = body.model_dump(include={"metadata", "expiration_date", "memory_type", "prompt"}, exclude_none=True)
    if body.infer is not None:
        options["infer"] = body.infer
    with engine.lock:
        return engine.memory.add([m.model_dump() for m in body.messages], **ids, **options)


@router.get("/memories")
def list_memories(
    request: Request,
    user_id: Optional[str] = None,
    run_id: Optional[str] = None,
    agent_id: Optional[str] = None,
    top_k: Optional[int] = None,
    show_expired: bool = False,
    who: str = Depends(caller),
):
    engine = request.app.state.engine
    if top_k is not None and not 0 <= top_k <= 1000:
        raise HTTPException(400, "top_k must be between 0 and 1000")
    ids = _query_ids(user_id, agent_id, run_id)
    if ids:
        limit = {} if top_k is None else {"top_k": top_k}
        with engine.lock:
            return engine.memory.get_all(filters=ids, show_expired=show_expired, **limit)
    if who != "admin":
        raise HTTPException(403, "Listing without an id requires admin privileges")
    with engine.lock:
        points = engine.memory.vector_store.list(top_k=top_k or WHOLE_STORE)[0]
    return {"results": [_raw(point) for point in points]}


def _raw(point):
    """The unscoped listing shows the store as it is: role and the like stay in metadata."""
    top = ("data", "hash", "created_at", "updated_at", "user_id", "agent_id", "run_id")
    payload = point.payload
    return {
        "id": str(point.id),
        "memory": payload.get("data"),
        **{key: payload.get(key) for key in top[1:]},
        "metadata": {key: value for key, value in payload.items() if key not in top},
    }


@router.get("/memories/{memory_id}")
def get_memory(request: Request, memory_id: str):
    with request.app.state.engine.lock:
        return request.app.state.engine.memory.get(memory_id)


@router.put("/memories/{memory_id}")
def update(request: Request, memory_id: str, body: Change):
    engine = request.app.state.engine
    changes = {key: getattr(body, key) for key in body.model_fields_set}
    if not changes:
        raise HTTPException(400, "At least one of text, metadata or expiration_date is required.")
    with engine.lock:
        _known(engine, memory_id)
        return engine.memory.update(memory_id, **changes)


@router.delete("/memories/{memory_id}")
def delete(request: Request, memory_id: str):
    engine = request.app.state.engine
    with engine.lock:
        _known(engine, memory_id)
        return engine.memory.delete(memory_id)


@router.delete("/memories", dependencies=[Depends(admin_only)])
def delete_all(
    request: Request, user_id: Optional[str] = None, run_id: Optional[str] = None, agent_id: Optional[str] = None
):
    ids = _query_ids(user_id, agent_id, run_id)
    if not ids:
        raise HTTPException(400, "At least one of user_id, agent_id or run_id is required.")
    with request.app.state.engine.lock:
        return request.app.state.engine.memory.delete_all(**ids)


@router.get("/memories/{memory_id}/history")
def history(request: Request, memory_id: str):
    return request.app.state.engine.history(memory_id)


@router.post("/search")
def search(request: Request, body: Search):
    # The deprecated top-level ids win over the filters, as they do in Mem0.
    filters = {**(body.filters or {}), **_ids(body)}
    options = body.model_dump(include={"top_k", "threshold"}, exclude_none=True)
    with request.app.state.engine.lock:
        return request.app.state.engine.memory.search(
            body.query, filters=filters, explain=body.explain, show_expired=body.show_expired, **options
        )


# ---- administration


def _redacted(value, name=""):
    if isinstance(value, dict):
        return {key: _redacted(item, key) for key, item in value.items()}
    return "********" if any(word in name for word in SECRET_WORDS) else value


def _merged(base, changes):
    merged = copy.deepcopy(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


@router.get("/configure")
def get_configuration(request: Request):
    return _redacted(request.app.state.engine.config)


@router.post("/configure", dependencies=[Depends(admin_only)])
def configure(request: Request, changes: dict[str, Any]):
    engine = request.app.state.engine
    if "vector_store" in changes or "history_db_path" in changes:
        raise HTTPException(400, "This backend cannot move its store while running")
    config = _merged(engine.config, changes)
    llm, embedder = config["llm"], config["embedder"]
    with engine.lock:
        engine.memory.llm = LlmFactory.create(llm["provider"], llm["config"])
        engine.memory.embedding_model = EmbedderFactory.create(embedder["provider"], embedder["config"], None)
        engine.memory.custom_instructions = config.get("custom_instructions")
        engine.config = config
    return {"message": "Configuration set successfully"}


@router.get("/configure/providers")
def providers():
    return {"llm": ["openai"], "embedder": ["openai"], "vector_store": ["qdrant"]}


@router.post("/generate-instructions")
def generate_instructions(request: Request, body: Instructions):
    llm = request.app.state.engine.memory.llm
    answer = llm.generate_response(messages=[{"role": "user", "content": body.use_case}])
    return {"custom_instructions": answer, "test_message": body.use_case}


@router.post("/reset", dependencies=[Depends(admin_only)])
def reset(request: Request):
    request.app.state.engine.reset()
    return {"message": "All memories reset"}


@router.get("/entities")
def entities(request: Request):
    keep = ("type", "total_memories", "created_at", "updated_at")
    found = [e for e in list_entities(request.app.state) if e["type"] != "app"]
    return [{"id": e["name"], **{key: e[key] for key in keep}} for e in found]


@router.delete("/entities/{kind}/{name:path}", dependencies=[Depends(admin_only)])
def delete_entity(request: Request, kind: str, name: str):
    if kind not in ("user", "agent", "run"):
        raise HTTPException(400, f"Unknown entity type {kind}")
    with request.app.state.engine.lock:
        request.app.state.engine.memory.delete_all(**{f"{kind}_id": name})
    return {"message": "Entity deleted successfully"}


@router.get("/requests", dependencies=[Depends(admin_only)])
def requests(request: Request, limit: int = 100):
    newest = request.app.state.wire_log.entries()[::-1][:limit]
    return [{"method": e["method"], "path": e["path"]} for e in newest]


@public.get("/")
def home():
    return RedirectResponse("/docs")


@public.get("/auth/setup-status")
def setup_status():
    return {"needs_setup": False}
