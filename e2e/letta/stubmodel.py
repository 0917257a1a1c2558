"""A deterministic stand-in for the OpenAI API that does what the user tells it.

A test of a gate has to choose which tools the model calls, and with which
arguments. So the script is the user's message itself, one directive a line:

    CALL memory_insert {"label":"human","new_string":"x"}   a tool call
    CALL ...                                                a parallel one, same step
    THEN                                                    the next model step
    SAY All done.                                           the final text
    SLEEP 0.5                                               wait before this step
    FAIL 500                                                answer this step with a status
    ASIDE CALL ...                                          for a sleeptime agent that
                                                            reads this line later

or the same as JSON: {"steps":[{"calls":[{"name":..., "arguments":{...}}],
"say":..., "sleep":..., "fail":...}]}. Arguments that are a string are sent as they
are, so malformed ones can be tried. A message without a script is echoed.

Which step is due follows from the request alone: the number of assistant messages
since the script. Nothing is kept between requests, so a continuation after a
pause, a restart or another agent in between changes nothing. Embeddings are a
hashed bag of words: cosine similarity means "shares words".

Every request is kept and served under /_e2e/prompts: it is the only place where one
sees what the model was shown.
"""

import argparse
import base64
import ctypes
import hashlib
import json
import math
import re
import signal
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSIONS = 1536
MODELS = ("gpt-4o-mini", "gpt-4o")
MAX_PROMPTS = 1000
CREATED = 1_700_000_000
# What Letta's older loops put into the user role on their own account.
NOT_A_USER = ("heartbeat", "system_alert", "login")

_prompts = []
_prompts_lock = threading.Lock()


def embed(text):
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        vector[int.from_bytes(digest[:4], "big") % DIMENSIONS] += 1.0
    norm = math.sqrt(sum(value * value for value in vector))
    if norm == 0.0:
        # Cosine distance to a zero vector is undefined; all wordless texts meet here.
        vector[0] = norm = 1.0
    return [value / norm for value in vector]


def spoken(message):
    """The text of a user message, or None where the user said nothing."""
    if message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    content = str(content or "")
    if not re.search(r"^(?:user: )?ASIDE ", content, re.M):  # else the transcript that a sleeptime agent is handed
        # What Letta Code tells the agent before what its user says.
        content = re.sub(r"\A(?:<system-reminder>.*?</system-reminder>\s*)+(?=\S)", "", content, flags=re.S)
    try:
        packed = json.loads(content)
    except ValueError:
        return content
    if isinstance(packed, dict) and "steps" not in packed and "type" in packed:
        return None if packed["type"] in NOT_A_USER else str(packed.get("message", ""))
    return content


def steps_of(text):
    """The steps a message asks for, or none where it is no script."""
    text = text.strip()
    if text.startswith("<system-reminder>"):
        # A sleeptime agent is handed the transcript of the agent it works for.
        text = "\n".join(re.findall(r"^(?:user: )?ASIDE (.*)", text, re.M))
    if text.startswith('{"steps"'):
        return json.loads(text)["steps"]
    if not re.match(r"(CALL|SAY|SLEEP|FAIL)\b", text):
        return []
    steps = [{}]
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if word == "THEN":
            steps.append({})
        elif word == "CALL":
            name, _, arguments = rest.partition(" ")
            steps[-1].setdefault("calls", []).append({"name": name, "arguments": arguments or "{}"})
        elif word == "SAY":
            steps[-1]["say"] = rest
        elif word == "SLEEP":
            steps[-1]["sleep"] = float(rest)
        elif word == "FAIL":
            steps[-1]["fail"] = int(rest)
    return steps


def due(messages):
    """The step that this request asks for: a dict with calls, say, sleep, fail."""
    text, answered = "", 0
    for message in reversed(messages):
        said = spoken(message)
        if said is not None:
            text = said
            break
        answered += message.get("role") == "assistant"
    steps = steps_of(text)
    if not steps:
        return {"say": "You said: " + " ".join(text.split())[:200]}, True
    if answered < len(steps):
        return steps[answered], answered == len(steps) - 1 and not steps[answered].get("calls")
    return {"say": "Done."}, True


def fill(call, tools, last):
    """Adds what Letta's older loops demand of every call and nobody scripts."""
    arguments = call["arguments"]
    schema = next((t["function"] for t in tools if t["function"]["name"] == call["name"]), {})
    wanted = (schema.get("parameters") or {}).get("properties") or {}
    if isinstance(arguments, str) and not {"request_heartbeat", "thinking"} & set(wanted):
        return arguments
    try:
        filled = dict(json.loads(arguments) if isinstance(arguments, str) else arguments)
    except ValueError:
        return arguments
    if "request_heartbeat" in wanted:
        filled.setdefault("request_heartbeat", not last)
    if "thinking" in wanted:
        filled.setdefault("thinking", "As told.")
    return json.dumps(filled, ensure_ascii=False)


def answer(request):
    messages, tools = request.get("messages", []), request.get("tools") or []
    step, last = due(messages)
    calls, say = list(step.get("calls", [])), step.get("say")
    if not calls and say is None:
        say = "Done."
    # Older loops let the model speak through a tool only.
    if say is not None and not calls and any(t["function"]["name"] == "send_message" for t in tools):
        calls, say = [{"name": "send_message", "arguments": {"message": say}}], None
    made = sum(len(m.get("tool_calls") or []) for m in messages)
    tool_calls = [
        {
            "id": f"call_{made + number:04d}",
            "type": "function",
            "function": {"name": call["name"], "arguments": fill(call, tools, last)},
        }
        for number, call in enumerate(calls)
    ]
    return step, say, tool_calls


def pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Without this every small answer waits for Nagle plus a delayed ACK.
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path == "/_e2e/health":
            self.send({"status": "ok"})
        elif self.path == "/_e2e/prompts":
            with _prompts_lock:
                self.send({"prompts": list(_prompts)})
        elif self.path == "/v1/models":
            data = [{"id": name, "object": "model", "created": CREATED, "owned_by": "stub"} for name in MODELS]
            self.send({"object": "list", "data": data})
        else:
            self.send({"error": {"message": "not found"}}, 404)

    def do_DELETE(self):
        if self.path != "/_e2e/prompts":
            return self.send({"error": {"message": "not found"}}, 404)
        with _prompts_lock:
            _prompts.clear()
        self.send({"status": "ok"})

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path == "/v1/embeddings":
            self.send(self.embeddings(request))
        elif self.path == "/v1/chat/completions":
            self.complete(request)
        else:
            self.send({"error": {"message": "not found"}}, 404)

    @staticmethod
    def embeddings(request):
        texts = request["input"] if isinstance(request["input"], list) else [request["input"]]
        vectors = [embed(str(text)) for text in texts]
        if request.get("encoding_format") == "base64":
            vectors = [base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *v)).decode() for v in vectors]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "data": data, "model": request.get("model", "stub"), "usage": usage}

    def complete(self, request):
        with _prompts_lock:
            _prompts.append(request)
            del _prompts[:-MAX_PROMPTS]
        step, say, tool_calls = answer(request)
        time.sleep(step.get("sleep", 0))
        if step.get("fail"):
            error = {"message": "the script asked for it", "type": "stub_error", "code": None}
            return self.send({"error": error}, step["fail"])
        reason = "tool_calls" if tool_calls else "stop"
        if request.get("stream"):
            return self.stream(request, say, tool_calls, reason)
        message = {"role": "assistant", "content": say}
        if tool_calls:
            message["tool_calls"] = tool_calls
        self.send(
            self.envelope(request, "chat.completion")
            | {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": self.usage()}
        )

    @staticmethod
    def envelope(request, kind):
        return {"id": "chatcmpl-stub", "object": kind, "created": CREATED, "model": request.get("model", "stub")}

    @staticmethod
    def usage():
        return {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    def stream(self, request, say, tool_calls, reason):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        envelope = self.envelope(request, "chat.completion.chunk")

        def event(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            self.event(envelope | {"choices": [choice]})

        event({"role": "assistant", "content": None if tool_calls else ""})
        if say is not None:
            for piece in pieces(say, 8):
                event({"content": piece})
        for index, call in enumerate(tool_calls):
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            function = {"name": name, "arguments": ""}
            event({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
            for piece in pieces(arguments, 16):
                event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        event({}, reason)
        if (request.get("stream_options") or {}).get("include_usage"):
            self.event(envelope | {"choices": [], "usage": self.usage()})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, body):
        self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
        self.wfile.flush()

    def send(self, body, status=200):
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def handle(self):
        try:
            super().handle()
        except (BrokenPipeError, ConnectionResetError):
            pass  # a cancelled run hangs up in the middle of an answer

    def log_message(self, *args):
        pass


def die_with_parent():
    """A test runner that is killed cannot clean up; ask the kernel to do it."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        pass  # not Linux: the launcher's own trap is all there is


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    die_with_parent()
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    server.daemon_threads = True
    server.serve_forever()


if __name__ == "__main__":
    main()
