"""Kubernetes' REST rules: where objects are found, what a refusal says, and when a request is worth sending again."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from urllib.parse import quote

import msgspec

from kframework.client.transport import Request, Response, Transport
from kframework.errors import ClusterError
from kframework.objects import Kind
from kframework.objects.kinds import T

#: How long one answer may take, in seconds.
ANSWER_TIMEOUT = 30.0

#: How often a request is sent again at most because the server asked for it, as in client-go.
MOST_REPEATS = 10

#: An answer with one of these may be another one the next time.
_PASSING = frozenset({0, 408, 429, 500, 502, 503, 504})

#: How much is shown of an answer that is no Status.
_SHOWN = 200


def path_of(kind: Kind[T], namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of an object, or without a name that of the objects of a kind in a namespace or in all."""
    if not name:
        return _collection(kind, namespace)
    path = f"{_collection(kind, namespace or 'default')}/{quote(name, safe=':')}"
    return f"{path}/{subresource}" if subresource else path


@lru_cache(maxsize=1024)  # requests mostly go to the same few namespaces
def _collection(kind: Kind[T], namespace: str) -> str:
    path = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    if kind.namespaced and namespace:
        path += f"/namespaces/{quote(namespace, safe='')}"
    return f"{path}/{kind.plural}"


async def ask(transport: Transport, request: Request) -> bytes:
    """Send a request, again where the server asks for it, and return the answer's body; raises ClusterError."""
    response = await transport.send(request)
    for _ in range(MOST_REPEATS):
        pause = pause_of(response)
        if pause is None:
            break
        await asyncio.sleep(pause)
        response = await transport.send(request)
    if response.status >= 300:
        raise refusal(request, response.status, response.body)
    return response.body


def pause_of(response: Response) -> float | None:
    """Return the seconds after which the server wants to see the request again, None if it does not."""
    if response.status != 429 and response.status < 500:
        return None
    after = response.headers.get("retry-after", "")
    return float(after) if after.isdecimal() else None


class _Status(msgspec.Struct):
    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0


def refusal(request: Request, status: int, body: bytes) -> ClusterError:
    """Make an error of an answer, in the words of its Status if it is one.

    Where an API server has nothing at a path it says so in plain text, which to client-go is NotFound too.
    """
    error = stated(body, status)
    if error is not None:
        return error
    text = " ".join(body[:_SHOWN].decode(errors="replace").split())
    message = f"{request.method} {request.path}: HTTP status {status}" + (f": {text}" if text else "")
    reason = "NotFound" if status == 404 else ""
    return ClusterError(message, status=status, reason=reason, retryable=status in _PASSING)


def stated(document: bytes, status: int) -> ClusterError | None:
    """Return the error that a Status tells, None if it is no Status; its code goes before `status`."""
    try:
        said = msgspec.json.decode(document, type=_Status)
    except (ValueError, RecursionError):
        return None
    if said.kind != "Status":
        return None
    code = said.code or status
    message = said.message or said.reason or f"the server answered with status {code}"
    return ClusterError(message, status=code, reason=said.reason, retryable=code in _PASSING)
