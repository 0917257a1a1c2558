"""What both dialects need from HTTP: bodies, pages, and the platform's errors."""

import json
import uuid
from urllib.parse import parse_qsl, urlencode

from fastapi import Request
from fastapi.responses import JSONResponse

MAX_PAGE_SIZE = 200


class HostedError(Exception):
    """An answer in the platform's error style: {"error": ...} or {"detail": ...}."""

    def __init__(self, status, **body):
        super().__init__(status, body)
        self.status = status
        self.body = body


async def hosted_error_handler(_request, error):
    return JSONResponse(error.body, status_code=error.status)


async def json_body(request: Request):
    """The body as plain data; the platform tolerates an absent one."""
    raw = await request.body()
    if not raw:
        return {}
    try:
        return json.loads(raw)
    except ValueError as error:
        raise HostedError(400, detail=f"JSON parse error - {error}") from error


async def json_object(request: Request):
    body = await json_body(request)
    if not isinstance(body, dict):
        raise HostedError(400, error="Request body must be an object")
    return body


def memory_uuid(memory_id):
    try:
        return str(uuid.UUID(memory_id))
    except ValueError as error:
        raise HostedError(400, error=f"{memory_id} is not a valid memory id") from error


def _number(name, text, limit=None):
    try:
        number = int(text)
    except (TypeError, ValueError) as error:
        raise HostedError(400, error=f"{name} must be an integer") from error
    if number < 1 or (limit and number > limit):
        raise HostedError(400, error=f"{name} is out of range")
    return number


def wants_page(request: Request):
    return "page" in request.query_params and "page_size" in request.query_params


def paginate(request: Request, rows, body=None, default_size=100):
    """One page, with absolute links to this host.

    The links deliberately name the engine's own address and not the Host header:
    that is what the platform does, and what leads clients around a proxy.
    """
    body = body or {}
    page = _number("page", request.query_params.get("page", body.get("page", 1)))
    size = request.query_params.get("page_size", body.get("page_size", default_size))
    size = _number("page_size", size, MAX_PAGE_SIZE)
    pages = max(1, -(-len(rows) // size))
    if page > pages:
        raise HostedError(404, detail="Invalid page.")

    def link(number):
        if not 1 <= number <= pages:
            return None
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        query.update(page=number, page_size=size)
        return f"{request.app.state.public_url}{request.url.path}?{urlencode(query)}"

    start = (page - 1) * size
    return {
        "count": len(rows),
        "next": link(page + 1),
        "previous": link(page - 1),
        "results": rows[start : start + size],
    }
