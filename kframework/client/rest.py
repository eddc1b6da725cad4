"""Kubernetes' REST rules: paths of objects, errors in responses, and when to retry."""

from __future__ import annotations

import asyncio
import re
from functools import lru_cache
from urllib.parse import quote

import msgspec

from kframework.client.transport import Request, Response, Transport
from kframework.errors import ClusterError
from kframework.objects import Kind
from kframework.objects.kinds import T

#: How long a response may take, in seconds.
ANSWER_TIMEOUT = 30.0

#: How often a request is repeated because the server asks for it, as in client-go.
MAX_RETRIES = 10

#: Statuses that may differ at the next attempt.
_RETRYABLE = frozenset({0, 408, 429, 500, 502, 503, 504})

#: Almost all names. To quote one takes six calls.
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9.:-]+")

#: How many bytes of a response that is no Status an error quotes.
_MAX_QUOTED_BYTES = 200


def object_path(kind: Kind[T], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or without a name that of a kind's objects in a namespace or in all."""
    if not name:
        return _collection_path(kind, namespace)
    quoted = name if _PLAIN_NAME.fullmatch(name) else quote(name, safe=":")
    path = f"{_collection_path(kind, namespace or 'default')}/{quoted}"
    return f"{path}/{subresource}" if subresource else path


@lru_cache(maxsize=1024)  # most requests go to the same few namespaces
def _collection_path(kind: Kind[T], namespace: str) -> str:
    path = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    if kind.namespaced and namespace:
        path += f"/namespaces/{quote(namespace, safe='')}"
    return f"{path}/{kind.plural}"


async def send_with_retries(transport: Transport, request: Request) -> bytes:
    """Send a request, retry if the server asks for it, and return the response's body; raises ClusterError."""
    retries = 0
    while (response := await transport.send(request)).status >= 300:
        pause = retry_after(response)
        if pause is None or retries == MAX_RETRIES:
            raise response_error(request, response.status, response.body)
        retries += 1
        await asyncio.sleep(pause)
    return response.body


def retry_after(response: Response) -> float | None:
    """Return after how many seconds the server wants the request again, None if it does not."""
    if response.status != 429 and response.status < 500:
        return None
    seconds = response.headers.get("retry-after", "")
    return float(seconds) if seconds.isdecimal() else None


class _StatusBody(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


def response_error(request: Request, status: int, body: bytes) -> ClusterError:
    """Create the error for a response, from its Status if it is one.

    An API server answers an unknown path with 404 in plain text, which is NotFound too, as in client-go.
    """
    error = parse_status(body, status)
    if error is not None:
        return error
    text = " ".join(body[:_MAX_QUOTED_BYTES].decode(errors="replace").split())
    message = f"{request.method} {request.path}: HTTP status {status}" + (f": {text}" if text else "")
    reason = "NotFound" if status == 404 else ""
    return ClusterError(message, status=status, reason=reason, retryable=status in _RETRYABLE)


def parse_status(document: bytes, status: int) -> ClusterError | None:
    """Decode a Status into an error, None if it is none; its code takes precedence over `status`."""
    try:
        decoded = msgspec.json.decode(document, type=_StatusBody)
    except (ValueError, RecursionError):
        return None
    if decoded.kind != "Status":
        return None
    code = decoded.code or status
    message = decoded.message or decoded.reason or f"the server answered with status {code}"
    return ClusterError(message, status=code, reason=decoded.reason, retryable=code in _RETRYABLE)
