"""How requests reach an API server: over HTTP to a real one, or straight into the fake one in this process.

A request names its user; the write fence refuses writes while this process does not lead.

Everything above, from the paging of lists to the retries, is the same for both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kframework.errors import ClusterError

AUTHENTICATED = "system:authenticated"
#: Who is in this group may do anything, whatever roles there are.
MASTERS = "system:masters"


class User(NamedTuple):
    """Who sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


#: Whom a kubeconfig of kubeadm, and one of ours, makes of its bearer.
ADMIN = User("kubernetes-admin", (MASTERS, AUTHENTICATED))
#: Who says nothing of himself.
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    """Return as whom API servers know a ServiceAccount."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


JSON = "application/json"

_EVENTS = "/apis/events.k8s.io/"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as it stands in the HTTP message; `path` starts with a slash, values of `query` are not escaped.

    `user` is who asks, where somebody found that out; a program of this process says nothing, and may do anything.
    `user_agent` is the program that asks, if it says so.
    `timeout` says after how many seconds without an answer, or without the next piece of a stream, it has failed. A
    transport that waits for a connection asks `may_leave` right before it sends a body, and raises what that raises.
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
    may_leave: Callable[[], None] | None = None

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.method != "GET"

    @property
    def is_event(self) -> bool:
        """Whether it is about what schedulers tell of pods."""
        return self.path.startswith(_EVENTS)


class Response(msgspec.Struct, frozen=True):
    """An answer as a whole; names of headers are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Stream(msgspec.Struct, frozen=True):
    """An answer that goes on: `lines` yields one JSON document each; with another status than 200, its body."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)


class Transport(Protocol):
    """Carries requests to one API server; a call that gets no answer raises ClusterError with status 0."""

    async def send(self, request: Request) -> Response:
        """Send a request and return the whole answer, whatever its status."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Send a request and return its answer line by line; leaving the context ends it."""
        ...

    async def close(self) -> None:
        """Give up all connections."""
        ...


class TransportLayer(Transport):
    """Stands in front of another transport; what a layer does not change passes through."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, request: Request) -> Response:
        return await self._inner.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


#: The reason of the ClusterError that whoever writes gets when the fence is closed.
STOPPED = "Stopped"


class WriteFence:
    """Open until it is closed for good; any thread may use it."""

    def __init__(self) -> None:
        self._closed = self._handed_over = False
        self._holds: Callable[[], bool] = lambda: True

    def close(self) -> None:
        """Let nothing be written any more."""
        self._closed = True

    def hand_over(self) -> None:
        """Let nothing but events be written any more: another scheduler may lead from now on, whom they disturb not."""
        self._handed_over = True

    def only_while(self, holds: Callable[[], bool]) -> None:
        """Let nothing be written when this does not hold, though nobody has closed the fence yet."""
        self._holds = holds

    @property
    def is_open(self) -> bool:
        """Whether all may be written."""
        return not (self._closed or self._handed_over) and self._holds()

    def check(self) -> None:
        """Raise ClusterError when nothing may be written, or events only."""
        if not self.is_open:
            raise _stopped()

    def check_event(self) -> None:
        """Raise ClusterError when not even an event may be written."""
        if self._closed or not (self._handed_over or self._holds()):
            raise _stopped()


def _stopped() -> ClusterError:
    message = "this scheduler has stopped, or lost its lease, and writes nothing any more"
    return ClusterError(message, status=403, reason=STOPPED)


class FencedTransport(TransportLayer):
    """A transport that carries what writes only while its fence is open.

    It stands behind all that lets a request wait, or sends it again. A watch never writes.
    """

    def __init__(self, transport: Transport, fence: WriteFence) -> None:
        super().__init__(transport)
        self._fence = fence

    async def send(self, request: Request) -> Response:
        if request.writes:
            check = self._fence.check_event if request.is_event else self._fence.check
            check()
            request = replace(request, may_leave=check)
        return await self._inner.send(request)
