"""What the API server refuses to this process for lack of a right: said once, shown while it lasts, its end said too.

A client goes on trying whatever it is refused, for a right may be granted at any time. So what is denied is noted here,
where all requests of a client pass, and whoever tries again says nothing of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from kframework.client.request_attributes import Attributes
from kframework.client.rest import stated
from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.clock import Clock
from kframework.verbosity import NOTICE

_log = logging.getLogger(__name__)

#: After so many seconds it is said again what is still refused, and what nobody asked for since is forgotten. A list
#: that is refused is asked for again every minute at most, a lease every few seconds.
AGAIN = 600.0

#: What prints the rights that a scheduler of one pod at a time needs.
RIGHTS_COMMAND = "kframework rbac"

#: How an authorizer words a refusal. Admission answers 403 as well, but no right would help against that.
_DENIAL = re.compile(r'User "(?P<user>[^"]*)" cannot \S+ (resource|path) "')

_ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")

#: Answers that come before the authorizer is asked, or without it.
_UNDECIDED = frozenset({401, 403, 408, 429})


def lacks_right(message: str) -> bool:
    """Return whether this tells that an authorizer refused something, which has been said then."""
    return _DENIAL.search(message) is not None


@dataclass(frozen=True)
class _Denial:
    """What was refused last of a kind, when, and when that was said; times in seconds since 1970."""

    wanted: Attributes
    at: float
    said_at: float

    def __str__(self) -> str:
        wanted = self.wanted
        what = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
        return f"{wanted.verb} {what}" + (f" in the namespace {wanted.namespace}" if wanted.namespace else "")

    @property
    def is_vital(self) -> bool:
        """Whether nothing can be scheduled without: what is followed, the lease, bindings."""
        verb, resource = self.wanted.verb, self.wanted.resource
        if resource == "leases":
            return verb != "watch"  # whoever may not watch a lease looks at it again and again
        return verb in ("list", "watch") or (verb, resource) == ("create", "pods/binding")


class MissingRights:
    """The rights that the clients of a process turned out not to have; `command` prints all that they need."""

    def __init__(self, clock: Clock, command: str = RIGHTS_COMMAND) -> None:
        self._clock = clock
        self._command = command
        self._remedy = command
        #: By verb, group and resource: a process asks for few of them, but for some in any number of namespaces.
        self._denials: dict[tuple[str, str, str], _Denial] = {}

    def problem(self) -> str | None:
        """Say without which rights nothing can be scheduled, and what would help; any thread may ask."""
        since = self._clock.now() - AGAIN
        vital = sorted(str(each) for each in list(self._denials.values()) if each.is_vital and each.at > since)
        return f"it may not {', '.join(vital)}; grant it: {self._remedy}" if vital else None

    def answered(self, request: Request, status: int, body: bytes) -> None:
        """Note what an answer tells of the right to its request."""
        if status == 403:
            error = stated(body, status)
            if error is not None and lacks_right(error.message):
                self._refused(Attributes.of(request), error.message)
        elif self._denials and status < 500 and status not in _UNDECIDED:
            wanted = Attributes.of(request)
            denial = self._denials.get(wanted[:3])
            if denial is not None and denial.wanted.namespace == wanted.namespace:
                self._denials.pop(wanted[:3], None)
                _log.log(NOTICE, _form(f"granted by now: {denial}"))

    def _refused(self, wanted: Attributes, message: str) -> None:
        key, now = wanted[:3], self._clock.now()
        known = self._denials.get(key)
        if known is not None and now < known.said_at + AGAIN:
            self._denials[key] = replace(known, wanted=wanted, at=now)
            return
        denial = self._denials[key] = _Denial(wanted, now, now)
        self._remedy = _remedy(self._command, message)
        _log.error(_form(f"no right to {denial}") + ": %s; grant it: %s", message, self._remedy)


def _form(text: str) -> str:
    """Make a text a log line's form: each right has one of its own, so that none passes for another's repetition."""
    return text.replace("%", "%%")


class RightsTransport(TransportLayer):
    """A transport that has noted what the answers tell of rights."""

    def __init__(self, transport: Transport, rights: MissingRights) -> None:
        super().__init__(transport)
        self._rights = rights

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        self._rights.answered(request, response.status, response.body)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            if stream.status == 200:
                self._rights.answered(request, 200, b"")
                yield stream
                return
            body = b"\n".join([line async for line in stream.lines])
            self._rights.answered(request, stream.status, body)
            yield Stream(stream.status, _once(body), stream.headers)


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _remedy(command: str, message: str) -> str:
    """Say what grants the rights that are needed to whom this message denies one."""
    denial = _DENIAL.search(message)
    user = denial["user"] if denial is not None else ""
    account = _ACCOUNT.fullmatch(user)
    if account is None:
        return f"{command} --config FILE prints what {user} needs"
    whose = f"--namespace {account['namespace']} --name {account['name']}"
    return f"{command} --config FILE {whose} | kubectl apply -f -"
