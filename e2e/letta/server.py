"""Runs Letta's own server with every request kept as it came off the wire.

The application is Letta's, unchanged; around it stands one ASGI layer that records
requests and answers three test-only routes. Two things are switched off before
Letta is imported because they would leave the machine at every start: the download
of tokeniser data, and the listing of the models of Letta's own cloud.
"""

import argparse
import asyncio
import base64
import ctypes
import gc
import json
import os
import signal
import sys

LOG_PATH = "/_e2e/"
MAX_ENTRIES = 20000


class WireLog:
    """ASGI wrapper: reads the whole body, records it, then replays it.

    Answers are not touched, so streams flow as the server writes them. Header names
    arrive lower-cased: the HTTP server folds them before handing them over.
    """

    def __init__(self, app):
        self.app = app
        self.sequence = 0
        self.entries = []

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"].startswith(LOG_PATH):
            return await self.own(scope, send)
        body, complete = b"", False
        while not complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            complete = not message.get("more_body", False)
        self.record(scope, body)
        replayed = False

        async def replay():
            nonlocal replayed
            if replayed:
                return await receive()
            replayed = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, replay, send)

    def record(self, scope, body):
        self.sequence += 1
        self.entries.append(
            {
                "seq": self.sequence,
                "method": scope["method"],
                "path": scope["raw_path"].decode("latin-1"),
                "query": scope["query_string"].decode("latin-1"),
                "headers": [[k.decode("latin-1"), v.decode("latin-1")] for k, v in scope["headers"]],
                "body_base64": base64.b64encode(body).decode(),
            }
        )
        del self.entries[:-MAX_ENTRIES]

    async def own(self, scope, send):
        known, status = {"status": "ok"}, 200
        if scope["path"] == "/_e2e/log" and scope["method"] == "GET":
            known = {"requests": self.entries}
        elif scope["path"] == "/_e2e/log" and scope["method"] == "DELETE":
            self.entries = []
        elif scope["path"] != "/_e2e/health":
            known, status = {"detail": "no such test route"}, 404
        raw = json.dumps(known).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": raw})


def start_quickly():
    """Importing Letta takes most of a start; this halves it and changes nothing else.

    The collector finds nothing to free among imports, and one transitive package
    instruments every function of its own with run-time type checks.
    """
    gc.disable()
    import typeguard

    typeguard.typechecked = lambda target=None, **options: target if target else (lambda real: real)


def stay_on_this_machine(stub_url):
    import letta.constants
    import nltk

    letta.constants.LETTA_MODEL_ENDPOINT = stub_url
    nltk.download = lambda *args, **options: False


# Where the tables' definitions and the migrations of the same version differ in what
# they accept. The rest of the difference is the names of constraints and indexes.
MIGRATED = (
    "CREATE SEQUENCE message_seq_id OWNED BY messages.sequence_id",
    "ALTER TABLE messages ALTER sequence_id SET DEFAULT nextval('message_seq_id')",
    "ALTER TABLE archives_agents ALTER created_at SET DEFAULT now()",
    "ALTER TABLE identities ALTER properties SET DEFAULT '[]'::jsonb",
    "ALTER TABLE steps ALTER completion_tokens SET DEFAULT 0, ALTER prompt_tokens SET DEFAULT 0, ALTER total_tokens SET DEFAULT 0",
)


def create_tables():
    """The wheel brings no migrations; its own table definitions are the schema."""
    import letta.orm
    from letta.server.db import engine
    from sqlalchemy import text

    async def create():
        async with engine.begin() as connection:
            await connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
            await connection.run_sync(letta.orm.Base.metadata.create_all)
            for statement in MIGRATED:
                await connection.execute(text(statement))
        await engine.dispose()

    asyncio.run(create())


def die_with_parent():
    """A test runner that is killed cannot clean up; ask the kernel to do it."""
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    except (OSError, AttributeError):
        pass  # not Linux: the launcher's own trap is all there is


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int)
    parser.add_argument("--stub-url", required=True)
    parser.add_argument("--create-tables", action="store_true", help="write the schema and end")
    given = parser.parse_args()
    die_with_parent()
    # Letta looks at the command line by itself, for --secure and the like.
    sys.argv = sys.argv[:1]
    start_quickly()
    stay_on_this_machine(given.stub_url)
    if given.create_tables:
        return create_tables()

    import uvicorn
    from letta.server.rest_api.app import app
    from letta.settings import settings

    gc.enable()
    uvicorn.run(
        WireLog(app),
        host="127.0.0.1",
        port=given.port,
        timeout_keep_alive=settings.uvicorn_timeout_keep_alive,
        access_log=False,
        timeout_graceful_shutdown=2,
        log_level=os.environ.get("LETTA_E2E_LOG_LEVEL", "warning"),
    )


if __name__ == "__main__":
    main()
