"""The one real Mem0 Memory object, and reading it the way the dialects need.

Everything that stores, embeds, extracts, searches or deletes is Mem0's own code
from PyPI. What is added here is only what its hosted platform offers beyond the
open-source engine: app ids, listing across scopes, and replacing metadata.
"""

import threading
from datetime import datetime, timezone
from pathlib import Path

from mem0 import Memory

from .filters import ENTITY_KEYS, matches, required_scope

WHOLE_STORE = 1_000_000
# The engine insists on a user, agent or run id; the platform also allows an app
# id alone. Such memories are scoped by an agent id that no answer ever shows.
APP_ONLY = "e2e-app-only-"
# What the engine keeps beside the caller's metadata in one flat payload.
ENGINE_KEYS = frozenset(
    ("data", "hash", "created_at", "updated_at", "text_lemmatized", "attributed_to", "expiration_date")
    + ("role", "actor_id") + ENTITY_KEYS
)


def build(data_dir, stub_url):
    data_dir = Path(data_dir)
    openai = {"api_key": "sk-stub", "openai_base_url": f"{stub_url}/v1"}
    config = {
        "history_db_path": str(data_dir / "history.db"),
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": str(data_dir / "qdrant"),
                "on_disk": True,
                "collection_name": "memories",
                "embedding_model_dims": 1536,
            },
        },
        "llm": {"provider": "openai", "config": {"model": "stub", **openai}},
        "embedder": {"provider": "openai", "config": {"model": "stub", **openai}},
    }
    return Engine(Memory.from_config(config), config)


class Engine:
    def __init__(self, memory, config):
        self.memory = memory
        self.config = config
        # Local Qdrant is not safe for concurrent writers; correctness of the
        # backend matters here, not its throughput.
        self.lock = threading.RLock()
        # What was said to make each memory: the platform's history shows it,
        # the engine does not keep it.
        self.inputs = {}
        # What a deleted memory last was: its history still names its owner.
        self.deleted = {}

    # ---- reading

    def rows(self):
        """Every stored memory, in the hosted shape, newest first."""
        with self.lock:
            points = self.memory.vector_store.list(filters=None, top_k=WHOLE_STORE)[0]
        rows = [hosted_shape(point.id, point.payload) for point in points]
        rows.sort(key=lambda row: (row["created_at"] or "", row["memory"]), reverse=True)
        return rows

    def select(self, filters, show_expired=False, extra=None):
        rows = [row for row in self.rows() if matches(filters, row) and (extra is None or extra(row))]
        return rows if show_expired else [row for row in rows if not expired(row)]

    def row(self, memory_id):
        with self.lock:
            point = self.memory.vector_store.get(vector_id=memory_id)
        return hosted_shape(point.id, point.payload) if point else None

    def search(self, query, filters, top_k, threshold, show_expired=False, extra=None):
        """Rank with the engine, then apply the platform's richer filter.

        The engine searches the narrowest scope the filter surely implies; "*"
        makes it search everything.
        """
        scope = required_scope(filters) or {"user_id": "*"}
        with self.lock:
            found = self.memory.search(
                query, filters=scope, top_k=1000, threshold=threshold, show_expired=show_expired
            )["results"]
        by_id = {row["id"]: row for row in self.select(filters, show_expired, extra)}
        hits = [{**by_id[item["id"]], "score": item["score"]} for item in found if item["id"] in by_id]
        return hits[:top_k]

    # ---- writing

    def add(self, messages, scope, metadata=None, infer=True, expiration_date=None, prompt=None):
        scope = {key: value for key, value in scope.items() if value is not None}
        metadata = dict(metadata or {})
        app_id = scope.pop("app_id", None)
        if app_id is not None:
            metadata["app_id"] = app_id
            if not scope:
                scope["agent_id"] = APP_ONLY + app_id
        with self.lock:
            results = self.memory.add(
                messages,
                **scope,
                metadata=metadata,
                infer=infer,
                expiration_date=expiration_date,
                prompt=prompt,
            )["results"]
        for item in results:
            self.inputs[item["id"]] = messages
        return results

    def update(self, memory_id, replace_metadata=False, **changes):
        """Update; the platform replaces metadata where the engine merges it."""
        with self.lock:
            before = self.row(memory_id)
            result = self.memory.update(memory_id, **changes)
            dropped = set((before or {}).get("metadata") or {}) - set(changes.get("metadata") or {})
            if replace_metadata and "metadata" in changes and dropped:
                store = self.memory.vector_store
                store.client.delete_payload(store.collection_name, keys=list(dropped), points=[memory_id])
        return result

    def backdate(self, memory_id, created_at):
        with self.lock:
            self.memory.vector_store.update(vector_id=memory_id, payload={"created_at": created_at})

    def delete(self, memory_id):
        with self.lock:
            row = self.row(memory_id)
            result = self.memory.delete(memory_id)
            self.deleted[memory_id] = row
        return result

    def history(self, memory_id):
        with self.lock:
            entries = self.memory.history(memory_id)
        # Mem0 sorts by whole seconds; an add and an update within one second
        # would come in any order.
        order = {"ADD": 0, "UPDATE": 1, "DELETE": 2}
        return sorted(entries, key=lambda e: (order.get(e["event"], 1), e["updated_at"] or ""))

    def reset(self):
        with self.lock:
            self.memory.reset()
            self.inputs.clear()
            self.deleted.clear()


def hosted_shape(memory_id, payload):
    agent_id = payload.get("agent_id")
    metadata = {key: value for key, value in payload.items() if key not in ENGINE_KEYS}
    return {
        "id": str(memory_id),
        "memory": payload.get("data", ""),
        "user_id": payload.get("user_id"),
        "agent_id": None if agent_id and agent_id.startswith(APP_ONLY) else agent_id,
        "app_id": payload.get("app_id"),
        "run_id": payload.get("run_id"),
        "hash": payload.get("hash"),
        "metadata": metadata or None,
        "categories": None,
        "structured_attributes": None,
        "replaced_by": None,
        "synthesized": False,
        "lifecycle_state": "active",
        "expiration_date": payload.get("expiration_date"),
        "created_at": payload.get("created_at"),
        "updated_at": payload.get("updated_at"),
    }


def expired(row):
    date = row.get("expiration_date")
    return bool(date) and str(date) < datetime.now(timezone.utc).date().isoformat()
