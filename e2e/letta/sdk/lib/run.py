"""The Python counterpart of run.mjs: one comparable JSON line per step."""

import argparse
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

PREFIX = "memproxy_"
MODEL, EMBEDDING = "openai-proxy/gpt-4o-mini", "openai/text-embedding-3-small"
UNKNOWN = "00000000-0000-4000-8000-00000000dead"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d| [AP]M UTC[+-]\d{4})?")


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base", required=True)
    parser.add_argument("--key", default="letta-e2e")
    parser.add_argument("--suffix", default="sfx0001", help="makes the names of this run unique")
    parser.add_argument("--direct", help="the server itself, for what goes past the proxy")
    parser.add_argument("--with-admin", action="store_true")
    given = parser.parse_args()
    given.base = given.base.rstrip("/")
    return given


def _label(item):
    return str(item.get("tool_name") or item.get("name") or item.get("label") or item) if isinstance(item, dict) else str(item)


def by_label(items):
    return sorted(plain(items), key=_label)


def plain(value):
    """What the SDK's objects hold, extra fields included."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Run:
    def __init__(self, given):
        self.given = given
        self.ids, self.stems = {}, {}
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
        self._print(name, False, {"unexpected": plain(value)})
        sys.exit(1)

    def raw(self, method, path, body=None):
        """For what the SDK has no method for."""
        headers = {
            "Authorization": f"Bearer {self.given.key}",
            "Content-Type": "application/json",
            "X-Stainless-Package-Version": "1.12.1",
        }
        payload = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.given.base + path, payload, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def until(self, action, done):
        for _ in range(2000):
            value = action()
            if done(value):
                return value
            time.sleep(0.025)
        raise TimeoutError("it never came to that")

    @staticmethod
    def drain(stream):
        """Pings come by the clock; all else is kept."""
        with stream:
            return [plain(event) for event in stream if event.message_type != "ping"]

    @staticmethod
    def _describe(error):
        told = {"name": type(error).__name__, "message": str(error)}
        for attribute in ("status_code", "body"):
            told[attribute] = getattr(error, attribute, None)
        return {"error": told}

    def _print(self, step, ok, result):
        line = {"step": step, "ok": ok, "result": self._normalise(plain(result))}
        print(json.dumps(line, ensure_ascii=False, default=str), flush=True)

    def _id(self, real, name):
        # A gated message may take several runs.
        if name == "run_id":
            return "<run>"
        # An otid is its message's id with another last byte, now and then the same one.
        if name == "otid" and real[:-2] in self.stems:
            return self.stems[real[:-2]]
        if real not in self.ids:
            self.ids[real] = f"<{len(self.ids) + 1}>"
            self.stems.setdefault(real[:-2], self.ids[real])
        return self.ids[real]

    def _text(self, value, name=""):
        for real, placeholder in ((self.given.base, "<base>"), (self.given.key, "<key>"), (self.given.suffix, "<suffix>")):
            value = value.replace(real, placeholder)
        return _TIME.sub("<time>", _UUID.sub(lambda m: self._id(m.group(), name), value))

    def _normalise(self, value, name=""):
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, (int, float)):
            if name.endswith(("_ms", "_ns")):
                return "<duration>"
            return round(value, 6) if name.endswith("score") else value
        if isinstance(value, list):
            if name == "embedding" and value:
                return f"<{len(value)} numbers>"
            # The server lists these as its database happens to.
            if name in ("tools", "tool_rules", "tags", "blocks"):
                value = sorted(value, key=_label)
            return [self._normalise(item, name) for item in value]
        if isinstance(value, dict):
            kept = [k for k in sorted(value) if not (self.strip and k.startswith(PREFIX))]
            return {self._text(k): self._normalise(value[k], k) for k in kept}
        return self._text(repr(value))
