"""The Python counterpart of run.mjs: one comparable JSON line per step."""

import argparse
import json
import os
import re
import sys
import tempfile
import time

# Mem0 reads both while being imported.
os.environ["MEM0_TELEMETRY"] = "false"
_mem0 = tempfile.TemporaryDirectory()  # of this run alone: runs go on beside one another
os.environ.setdefault("MEM0_DIR", _mem0.name)

import requests  # noqa: E402

PREFIX = "memproxy_"
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"
FACTS = [
    "The deployment key rotates every Friday",
    "Payments run in the Frankfurt region",
    "Alice prefers oat milk in coffee",
    "The staging database holds anonymised rows",
    "Bob plays violin in an orchestra",
    "Café Übermut serves 日本茶 and “quotes” 🍵",
    "Invoices are archived for ten years",
]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_HASH = re.compile(r"\b[0-9a-f]{32}\b")


def options(*extra):
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--suffix", default="sfx0001", help="makes the entity ids of this run unique")
    for names, settings in extra:
        parser.add_argument(*names, **settings)
    given = parser.parse_args()
    given.base = given.base.rstrip("/")
    return given


class Run:
    def __init__(self, given):
        self.given = given
        self.ids = {}
        self.strip = os.environ.get("STRIP_MEMPROXY") == "1"

    def step(self, name, action, show=None):
        try:
            value = action()
        except Exception as error:
            self._print(name, False, self._describe(error))
            sys.exit(1)
        self._print(name, True, show(value) if show else value)
        return value

    def fails(self, name, action):
        try:
            value = action()
        except Exception as error:
            self._print(name, True, self._describe(error))
            return
        self._print(name, False, {"unexpected": value})
        sys.exit(1)

    def finished(self, event_id):
        """The SDK has no method for events, so this asks for them itself."""
        headers = {"Authorization": f"Token {self.given.key}"}
        for _ in range(200):
            answer = requests.get(f"{self.given.base}/v1/event/{event_id}/", headers=headers, timeout=10)
            answer.raise_for_status()
            if answer.json()["status"] in ("SUCCEEDED", "FAILED"):
                return answer.json()
            time.sleep(0.025)
        raise TimeoutError(f"event {event_id} never finished")

    def ours(self, rows):
        """The engine is shared by all runs; a listing is compared by what is ours."""
        return [row for row in rows if self.given.suffix in json.dumps(row)]

    @staticmethod
    def _describe(error):
        told = {"name": type(error).__name__, "message": str(error)}
        for attribute in ("error_code", "details", "debug_info"):
            told[attribute] = getattr(error, attribute, None)
        return {"error": told}

    def _print(self, step, ok, result):
        line = {"step": step, "ok": ok, "result": self._normalise(result)}
        print(json.dumps(line, ensure_ascii=False, default=str), flush=True)

    def _text(self, value):
        for real, placeholder in ((self.given.base, "<base>"), (self.given.key, "<key>"), (self.given.suffix, "<suffix>")):
            value = value.replace(real, placeholder)
        value = _UUID.sub(lambda m: self.ids.setdefault(m.group(), f"<id-{len(self.ids) + 1}>"), value)
        return _HASH.sub("<hash>", _TIME.sub("<time>", value))

    def _normalise(self, value, name=""):
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            if name == "latency":
                return "<latency>"
            if name in ("id", "webhook_id"):
                return "<number>"
            return round(value, 6) if name == "score" else value
        if isinstance(value, (list, tuple)):
            return [self._normalise(item, name) for item in value]
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if not (self.strip and k.startswith(PREFIX))}
            # Metadata that held nothing but the proxy's keys was no metadata before.
            if value and not kept:
                return None
            walked = [(self._text(k), self._normalise(kept[k], k)) for k in sorted(kept)]
            # Some answers say "no metadata" with null and some by leaving it out;
            # once the proxy has stamped an entry, the two cannot be told apart.
            return {k: v for k, v in walked if k != "metadata" or v is not None}
        return self._text(repr(value))
