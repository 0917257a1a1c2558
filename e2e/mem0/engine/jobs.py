"""Background work and its events: the platform accepts first and finishes later."""

import threading
import uuid
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone


def now():
    return datetime.now(timezone.utc).isoformat()


class Jobs:
    def __init__(self):
        self._lock = threading.Lock()
        self._events = OrderedDict()
        # One worker keeps adds in the order they were accepted, so that two
        # runs of the same scenario store the same things in the same order.
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job")

    def start(self, event_type, payload, work):
        """Run work() later; returns the event, still PENDING."""
        event = self._new(event_type, payload)
        self._pool.submit(self._run, event["id"], work)
        return event

    def record(self, event_type, payload, results):
        """Note work that is already done."""
        event = self._new(event_type, payload)
        self._finish(event["id"], "SUCCEEDED", results=results)
        return event

    def get(self, event_id):
        with self._lock:
            event = self._events.get(event_id)
            return dict(event) if event else None

    def newest_first(self):
        with self._lock:
            return [dict(event) for event in reversed(self._events.values())]

    def clear(self):
        with self._lock:
            self._events.clear()

    def _new(self, event_type, payload):
        moment = now()
        event = {
            "id": str(uuid.uuid4()),
            "event_type": event_type,
            "status": "PENDING",
            "payload": payload,
            "metadata": None,
            "results": [],
            "created_at": moment,
            "updated_at": moment,
            "started_at": None,
            "completed_at": None,
            "latency": None,
            "graph_status": None,
            "error": None,
        }
        with self._lock:
            self._events[event["id"]] = event
        return dict(event)

    def _run(self, event_id, work):
        self._change(event_id, status="RUNNING", started_at=now())
        try:
            self._finish(event_id, "SUCCEEDED", results=work())
        except Exception as error:  # the event is the only place left to tell
            self._finish(event_id, "FAILED", error=f"{type(error).__name__}: {error}")

    def _finish(self, event_id, status, **changes):
        event = self.get(event_id)
        if event is None:  # a reset came in between
            return
        started = datetime.fromisoformat(event["started_at"] or event["created_at"])
        latency = (datetime.now(timezone.utc) - started).total_seconds() * 1000
        self._change(event_id, status=status, completed_at=now(), latency=latency, **changes)

    def _change(self, event_id, **changes):
        with self._lock:
            if event_id in self._events:
                self._events[event_id].update(changes, updated_at=now())
