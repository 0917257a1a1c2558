"""Keeps every request exactly as it came off the wire.

A proxy's promise is about bytes, so tests need to see what arrived before any
framework decoded it: the undecoded path, the query string, repeated headers in
order, and the body. (Header names arrive lower-cased: the HTTP server folds
them before handing them over. Names are case-insensitive, so nothing is lost
that a proxy has to keep.)
"""

import base64
import threading

LOG_PATH = "/_e2e/"
MAX_ENTRIES = 20000


class WireLog:
    def __init__(self):
        self._lock = threading.Lock()
        self._entries = []
        self._sequence = 0

    def append(self, entry):
        with self._lock:
            self._sequence += 1
            self._entries.append({"seq": self._sequence, **entry})
            del self._entries[:-MAX_ENTRIES]

    def entries(self):
        with self._lock:
            return list(self._entries)

    def clear(self):
        with self._lock:
            self._entries.clear()


class WireLogMiddleware:
    """ASGI wrapper: reads the whole body, records it, then replays it."""

    def __init__(self, app, log):
        self.app = app
        self.log = log

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"].startswith(LOG_PATH):
            await self.app(scope, receive, send)
            return

        body, complete = b"", False
        while not complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            complete = not message.get("more_body", False)

        self.log.append(
            {
                "method": scope["method"],
                "path": scope["raw_path"].decode("latin-1"),
                "query": scope["query_string"].decode("latin-1"),
                "headers": [[k.decode("latin-1"), v.decode("latin-1")] for k, v in scope["headers"]],
                "body_base64": base64.b64encode(body).decode(),
            }
        )

        replayed = False

        async def replay():
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)
