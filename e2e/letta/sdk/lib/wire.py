"""Plain HTTP to Letta, with every exchange written down in comparable form.

A recording is a txtar file: a comment that says what it shows, then a request and
a response a step, in the order they happened. JSON is indented, nothing else about
it changes: key order and numbers stay. Streams stay as they came, line by line. Ids
become well-formed ids that count up, times one fixed time, and texts of more than
400 characters are cut, lists of tools and rules are sorted, so that two runs give the same bytes.
"""

import http.client
import inspect
import json
import re
import urllib.parse

# Without this header the server talks to us as to a client of the old generation.
HEADERS = {"Content-Type": "application/json", "X-Stainless-Package-Version": "1.12.1"}
LIMIT = 400

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( [AP]M UTC[+-]\d{4})?")


def _named(item):
    """What a tool or a rule is sorted by; ids differ from run to run."""
    if not isinstance(item, dict):
        return str(item)
    inner = item.get("function") or item
    return f"{inner.get('name') or inner.get('tool_name')} {item.get('type')}"


# The default user, the same in every database.
_FIXED = "00000000-0000-4000-8000-000000000000"


class Normaliser:
    def __init__(self, *placeholders):
        self.placeholders = placeholders
        self.ids = {_FIXED: _FIXED}
        self.stems = {}

    def text(self, value, name=""):
        for real, placeholder in self.placeholders:
            value = value.replace(real, placeholder)
        value = _UUID.sub(lambda m: self._id(m.group(), name), value)
        value = _TIME.sub(lambda m: "2026-01-01T00:00:00" + (".000000" if m[1] else "") + (m[2] or ""), value)
        value = _CLOCK.sub(lambda m: "2026-01-01 00:00:00" + (m[2] and " AM UTC+0000" or ""), value)
        return value if len(value) <= LIMIT else value[:100] + "…[cut]"

    def _id(self, real, name):
        # The server makes an otid of the message's id by setting the last byte; one
        # time in a few dozen the two are equal. They always are here.
        if name == "otid" and real[:-2] in self.stems:
            return self.stems[real[:-2]]
        if real not in self.ids:
            self.ids[real] = f"00000000-0000-4000-8000-{len(self.ids):012d}"
            self.stems.setdefault(real[:-2], self.ids[real])
        return self.ids[real]

    def walk(self, value, name=""):
        if isinstance(value, str):
            return self.text(value, name)
        if isinstance(value, list):
            # Vectors are long, and numbers say nothing here.
            if name == "embedding" and value:
                return [0.0]
            # The server lists these as its database happens to.
            if name in ("tools", "tool_rules", "tags"):
                value = sorted(value, key=_named)
            return [self.walk(item, name) for item in value]
        if isinstance(value, dict):
            return {self.text(key): self.walk(item, key) for key, item in value.items()}
        if name.endswith(("_ms", "_ns", "duration", "seconds")) and isinstance(value, (int, float)):
            return 0
        return value


class Answer:
    def __init__(self, status, content_type, raw, location=None):
        self.status, self.content_type, self.raw, self.location = status, content_type, raw, location
        self.streamed = content_type.startswith("text/event-stream")

    @property
    def body(self):
        return json.loads(self.raw) if self.raw else None

    @property
    def events(self):
        """The data of a stream, [DONE] left out; of a JSON answer, its messages."""
        if not self.streamed:
            return self.body["messages"]
        lines = [line[6:] for line in self.raw.splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def of(self, kind):
        return [event for event in self.events if event.get("message_type") == kind]

    @property
    def stop_reason(self):
        if not self.streamed:
            return self.body["stop_reason"]["stop_reason"]
        return next((e["stop_reason"] for e in self.of("stop_reason")), None)


class Wire:
    """One conversation with the server; record() what a reader should see."""

    def __init__(self, base, *placeholders):
        self.base = urllib.parse.urlsplit(base)
        self.normalise = Normaliser((base, "http://letta"), *placeholders)
        self.sections, self.count = [], 0

    def ask(self, method, path, body=None, headers=None, cut_after=None):
        """cut_after hangs up as soon as the answer holds that text."""
        connection = http.client.HTTPConnection(self.base.hostname, self.base.port, timeout=120)
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        # None takes a header away.
        wanted = {k: v for k, v in {**HEADERS, **(headers or {})}.items() if v is not None}
        connection.request(method, path, payload, wanted)
        response = connection.getresponse()
        kind = response.headers.get("Content-Type", "").split(";")[0]
        if cut_after is None:
            raw = response.read().decode()
        else:
            raw = ""
            while cut_after not in raw and (line := response.readline()):
                raw += line.decode()
        connection.close()
        return Answer(response.status, kind, raw, response.headers.get("Location"))

    def record(self, method, path, body=None, note="", **options):
        answer = self.ask(method, path, body, **options)
        self.count += 1
        request = f"{method} {self.normalise.text(path)}\n"
        for name, value in (options.get("headers") or {}).items():
            request += f"{name}: {value}\n" if value is not None else f"(no {name})\n"
        if body is not None:
            request += self._json(body)
        response = f"{answer.status} {answer.content_type}".rstrip() + "\n"
        if answer.location:
            response += f"Location: {self.normalise.text(answer.location)}\n"
        response += self._stream(answer.raw) if answer.streamed else self._json_text(answer.raw)
        if options.get("cut_after"):
            response += "[the client hangs up here]\n"
        name = f"{self.count:02d}" + (f" {note}" if note else "")
        self.sections += [f"-- {name}: request --\n{request}", f"-- {name}: response --\n{response}"]
        return answer

    def say(self, text):
        """A sentence of the recording's own, between two exchanges."""
        self.sections.append(f"-- note --\n{self.normalise.text(text)}\n")

    def show(self, name, value):
        self.sections.append(f"-- {name} --\n{self._json(value)}")

    def _json(self, value):
        return json.dumps(self.normalise.walk(value), indent=1, ensure_ascii=False) + "\n"

    def _json_text(self, raw):
        try:
            return self._json(json.loads(raw))
        except ValueError:
            return self.normalise.text(raw) + "\n" if raw else ""

    def _stream(self, raw):
        lines, pings = [], 0
        blocks = re.split(r"\n\n", raw.replace("\r\n", "\n"))
        for block in blocks:
            if '"message_type":"ping"' in block:
                # Further pings come by the clock.
                pings += 1
                if pings > 1:
                    continue
            lines.append("\n".join(self._line(line) for line in block.split("\n")))
        return "\n\n".join(lines).rstrip("\n") + "\n"

    def _line(self, line):
        if not line.startswith("data: {"):
            return self.normalise.text(line)
        # The server's own compact form, so that framing can be read off.
        walked = self.normalise.walk(json.loads(line[6:]))
        return "data: " + json.dumps(walked, separators=(",", ":"), ensure_ascii=False)

    def text(self, title):
        return inspect.cleandoc(title) + "\n\n" + "".join(self.sections)
