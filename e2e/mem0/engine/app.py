"""Puts both dialects, the wire log and the test-only routes into one app."""

import logging
import uuid

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from mem0.exceptions import LLMError, VectorStoreError

from . import hosted, hosted_admin, selfhosted
from .jobs import Jobs
from .web import HostedError, hosted_error_handler
from .wirelog import WireLog, WireLogMiddleware

HOSTED_PREFIXES = ("/v1/", "/v2/", "/v3/", "/api/")
PROJECT_FIELDS = (
    "custom_instructions",
    "agent_custom_instructions",
    "custom_categories",
    "multilingual",
    "decay",
    "memory_depth",
    "usecase_setting",
    "version",
)


def _forget(state):
    """Everything the dialects hold beside the engine."""
    state.jobs = Jobs()
    state.entity_numbers = {}
    state.exports = {}
    state.project = dict.fromkeys(PROJECT_FIELDS)
    state.webhooks = {}
    state.profiles = {}
    state.profile_jobs = {}
    state.profile_jobs_by_key = {}
    state.profile_settings = {
        "enabled": False,
        "capabilities": [],
        "entities": {"user": {"schema": None, "custom_instructions": None}},
    }


def create(engine, public_url):
    # Mem0's server answers /memories/ with 404, never with a redirect.
    app = FastAPI(title="Mem0 engine for end-to-end tests", redirect_slashes=False)
    app.state.engine = engine
    app.state.public_url = public_url
    app.state.wire_log = WireLog()
    _forget(app.state)

    for router in (hosted.router, hosted_admin.router, selfhosted.public, selfhosted.router):
        app.include_router(router)
    app.add_exception_handler(HostedError, hosted_error_handler)
    app.add_exception_handler(Exception, _engine_failure)
    app.add_exception_handler(ValueError, _refused_by_engine)
    _add_test_routes(app)

    @app.middleware("http")
    async def request_id(request: Request, call_next):
        # An incoming id is not honoured by Mem0's server, so neither here.
        request.state.request_id = uuid.uuid4().hex[:8]
        response = await call_next(request)
        if not request.url.path.startswith(HOSTED_PREFIXES):
            response.headers["X-Request-ID"] = request.state.request_id
        return response

    app.add_middleware(WireLogMiddleware, log=app.state.wire_log)
    return app


async def _refused_by_engine(request, error):
    """The engine's own validation: a client's mistake in either dialect."""
    hosted_dialect = request.url.path.startswith(HOSTED_PREFIXES)
    return JSONResponse({"error" if hosted_dialect else "detail": str(error)}, status_code=400)


async def _engine_failure(request, error):
    logging.getLogger(__name__).exception("engine failure", exc_info=error)
    if request.url.path.startswith(HOSTED_PREFIXES):
        return JSONResponse({"error": "Internal server error"}, status_code=500)
    code = "unknown"
    if isinstance(error, LLMError):
        code = "provider_unavailable"
    elif isinstance(error, VectorStoreError):
        code = "vector_store_unavailable"
    request_id = getattr(request.state, "request_id", None)
    body = {"detail": "The memory engine failed", "code": code, "request_id": request_id}
    return JSONResponse(body, status_code=502, headers={"X-Request-ID": request_id or ""})


def _add_test_routes(app):
    """Open to anybody on purpose: tests reach them directly, never through a proxy."""

    @app.get("/_e2e/health", include_in_schema=False)
    def health():
        return {"status": "ok"}

    @app.get("/_e2e/log", include_in_schema=False)
    def wire_log():
        return {"requests": app.state.wire_log.entries()}

    @app.delete("/_e2e/log", include_in_schema=False)
    def clear_wire_log():
        app.state.wire_log.clear()
        return {"status": "ok"}

    @app.post("/_e2e/reset", include_in_schema=False)
    def reset():
        app.state.engine.reset()
        _forget(app.state)
        app.state.wire_log.clear()
        return {"status": "ok"}
