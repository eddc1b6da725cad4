"""A transport that answers from a script, for tests of the layers above it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from kframework.client.transport import Request, Response, Stream
from kframework.errors import ClusterError

#: Of a stream: a line, seconds of silence, or how it breaks.
Line = bytes | float | ClusterError
Answer = Response | ClusterError | Sequence[Line]

NO_ANSWER = ClusterError("no answer", status=0, retryable=True)


class Scripted:
    """Gives one answer per request, in order; requests after the last one never return."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[Request] = []
        self.at: list[float] = []
        self._answers = deque(answers)

    async def send(self, request: Request) -> Response:
        answer = await self._next(request)
        assert isinstance(answer, Response), f"{request} gets a stream"
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        answer = await self._next(request)
        if isinstance(answer, Response):
            yield Stream(answer.status, lines([answer.body]), answer.headers)
        else:
            yield Stream(200, lines(answer))

    async def close(self) -> None:
        pass

    async def _next(self, request: Request) -> Response | Sequence[Line]:
        self.requests.append(request)
        self.at.append(asyncio.get_running_loop().time())
        if not self._answers:
            await asyncio.get_running_loop().create_future()
        answer = self._answers.popleft()
        if isinstance(answer, ClusterError):
            raise answer
        return answer


async def lines(script: Iterable[Line]) -> AsyncIterator[bytes]:
    for line in script:
        if isinstance(line, ClusterError):
            raise line
        if isinstance(line, float):
            await asyncio.sleep(line)
        else:
            yield line


def ok(document: object) -> Response:
    return Response(200, msgspec.json.encode(document))


def refused(status: int, reason: str = "", message: str = "", **headers: str) -> Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": status,
    }
    return Response(status, msgspec.json.encode(body), {name.replace("_", "-"): text for name, text in headers.items()})


def listed(version: int, *items: object, following: str = "") -> Response:
    return ok({"metadata": {"resourceVersion": str(version), "continue": following}, "items": items})


def happened(event: str, document: object) -> bytes:
    return msgspec.json.encode({"type": event, "object": document})


def bookmark(version: int) -> bytes:
    return happened("BOOKMARK", {"kind": "X", "metadata": {"resourceVersion": str(version)}})


def failed(code: int, reason: str) -> bytes:
    """Write an ERROR event."""
    return happened("ERROR", msgspec.json.decode(refused(code, reason, reason).body))


def some(name: str, version: int, *, uid: str = "", namespace: str = "default", **fields: Any) -> dict[str, Any]:
    """Write an object as JSON has it."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"{name}-uid", "resourceVersion": str(version)}
    return {"metadata": metadata, **fields}
