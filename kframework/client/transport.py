"""The transports of requests to an API server: over HTTP, or straight into the fake one in this process.

A request names its user; the write fence rejects writes while this process is not the leader.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, NoReturn, Protocol

import msgspec
from msgspec.structs import replace

from kframework.errors import ClusterError

AUTHENTICATED = "system:authenticated"
#: Members of this group may do anything, whatever the roles.
MASTERS = "system:masters"


class User(NamedTuple):
    """The user who sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


#: The user of a kubeconfig from kubeadm or from us.
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
#: The user of a request without credentials.
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """Return the user that API servers see for a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


JSON = "application/json"

_EVENTS = "/apis/events.k8s.io/"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request; `path` starts with a slash, values of `query` are not escaped.

    Attributes:
        user: Who sends it, if authenticated; None within this process, which may do anything.
        user_agent: The program that sends it.
        timeout: Seconds without a response, or without more of a stream, after which it fails.
        check_before_send: Called right before the body is sent, after any wait for a connection; may raise.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = JSON
    accept: str = JSON
    if_none_match: str = ""
    user: User | None = None
    user_agent: str = ""
    timeout: float | None = None
    check_before_send: Callable[[], None] | None = None

    @property
    def is_write(self) -> bool:
        return self.method != "GET"

    @property
    def is_event(self) -> bool:
        return self.path.startswith(_EVENTS)


class Response(msgspec.Struct, frozen=True):
    """A whole response; header names are read in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Stream(msgspec.Struct, frozen=True):
    """A streamed response; `lines` yields JSON documents, or the body if the status is not 200."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Transport(Protocol):
    """Carries requests to one API server; a call without a response raises ClusterError with status 0."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole response, whatever its status."""

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and stream its response line by line; leaving the context ends it."""

    async def close(self) -> None:
        """Close all connections."""


class TransportLayer(Transport):
    """A transport around another one; passes on what it does not override."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


#: The reason of the ClusterError for a write after the fence was closed.
STOPPED = "Stopped"


class WriteFence:
    """A lock on writes that closes once and for all; safe in any thread."""

    def __init__(self) -> None:
        self._closed = self._handed_over = False
        self._may_write: Callable[[], bool] = lambda: True

    def close(self) -> None:
        self._closed = True

    def hand_over(self) -> None:
        """Block all writes except events: another scheduler may lead now, and events cannot harm it."""
        self._handed_over = True

    def only_while(self, holds: Callable[[], bool]) -> None:
        """Block all writes whenever `holds` returns false, though the fence is open."""
        self._may_write = holds

    @property
    def is_open(self) -> bool:
        return not (self._closed or self._handed_over) and self._may_write()

    def check(self) -> None:
        if not self.is_open:
            raise _stopped_error()

    async def refuse(self) -> NoReturn:
        """Fail in place of a write that came while the fence was closed."""
        raise _stopped_error()

    def check_event(self) -> None:
        if self._closed or not (self._handed_over or self._may_write()):
            raise _stopped_error()


def _stopped_error() -> ClusterError:
    message = "writes are blocked: this scheduler has stopped or lost its lease"
    return ClusterError(message, status=403, reason=STOPPED)


class FencedTransport(TransportLayer):
    """A transport that carries writes only while its fence is open.

    It is the innermost layer, below those that delay or retry requests. A watch never writes.
    """

    def __init__(self, transport: Transport, fence: WriteFence) -> None:
        super().__init__(transport)
        self._fence = fence

    async def send(self, request: Request) -> Response:
        if request.is_write:
            check = self._fence.check_event if request.is_event else self._fence.check
            check()
            request = replace(request, check_before_send=check)
        return await self._inner.send(request)
