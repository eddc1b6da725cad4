"""RBAC rights that this process lacks: logged once, reported while they are missing, and logged when granted.

Clients keep trying, because a right may be granted at any time. Denials are recorded here, where all requests of a
client pass, so that the retrying code does not log them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from kframework.client.request_attributes import Attributes
from kframework.client.rest import parse_status
from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.clock import Clock
from kframework.verbosity import NOTICE

_log = logging.getLogger(__name__)

#: A denial is logged again after this many seconds, and forgotten if not repeated within them. A denied list is
#: retried every minute at most, a lease every few seconds.
REPEAT_INTERVAL = 600.0

#: The command that prints the rights a scheduler needs.
RIGHTS_COMMAND = "kframework rbac"

#: An authorizer's message. Admission answers 403 as well, but no right would help against that.
_DENIAL = re.compile(r'User "(?P<user>[^"]*)" cannot \S+ (resource|path) "')

_SERVICE_ACCOUNT = re.compile(r"system:serviceaccount:(?P<namespace>[^:]+):(?P<name>[^:]+)")

#: Answers given before authorization, or without it.
_UNAUTHORIZED = frozenset({401, 403, 408, 429})


def is_denial(message: str) -> bool:
    """Return whether this is an authorizer's message, which `MissingRights` has logged."""
    return _DENIAL.search(message) is not None


@dataclass(frozen=True)
class _Denial:
    """The last denial of a verb on a resource, and when it was logged; times in seconds since 1970."""

    wanted: Attributes
    denied_at: float
    logged_at: float

    def __str__(self) -> str:
        wanted = self.wanted
        resource = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
        return f"{wanted.verb} {resource}" + (f" in the namespace {wanted.namespace}" if wanted.namespace else "")

    @property
    def is_vital(self) -> bool:
        """Whether scheduling is impossible without it: watched kinds, the lease, bindings."""
        verb, resource = self.wanted.verb, self.wanted.resource
        if resource == "leases":
            return verb != "watch"  # without this right the lease is polled
        return verb in ("list", "watch") or (verb, resource) == ("create", "pods/binding")


class MissingRights:
    """The rights that a process was denied; `command` prints all that it needs."""

    def __init__(self, clock: Clock, command: str = RIGHTS_COMMAND) -> None:
        self._clock = clock
        self._command = command
        self._remedy = command
        #: By verb, group and resource; of many namespaces only the last denial is kept.
        self._denials: dict[tuple[str, str, str], _Denial] = {}

    def problem(self) -> str | None:
        """Describe the missing rights that prevent scheduling, and the remedy; safe in any thread."""
        since = self._clock.now() - REPEAT_INTERVAL
        vital = sorted(str(each) for each in list(self._denials.values()) if each.is_vital and each.denied_at > since)
        return f"no right to {', '.join(vital)}; grant it: {self._remedy}" if vital else None

    def record_answer(self, request: Request, status: int, body: bytes) -> None:
        if status == 403:
            error = parse_status(body, status)
            if error is not None and is_denial(error.message):
                self._record_denial(Attributes.from_request(request), error.message)
        elif self._denials and status < 500 and status not in _UNAUTHORIZED:
            wanted = Attributes.from_request(request)
            denial = self._denials.get(wanted[:3])
            if denial is not None and denial.wanted.namespace == wanted.namespace:
                self._denials.pop(wanted[:3], None)
                _log.log(NOTICE, _escape_percent(f"granted: {denial}"))

    def _record_denial(self, wanted: Attributes, message: str) -> None:
        key, now = wanted[:3], self._clock.now()
        known = self._denials.get(key)
        if known is not None and now < known.logged_at + REPEAT_INTERVAL:
            self._denials[key] = replace(known, wanted=wanted, denied_at=now)
            return
        denial = self._denials[key] = _Denial(wanted, now, now)
        self._remedy = _grant_command(self._command, message)
        _log.error(_escape_percent(f"no right to {denial}") + ": %s; grant it: %s", message, self._remedy)


def _escape_percent(text: str) -> str:
    """Escape a text for a log format: each right has its own format, so that none counts as a repetition of another."""
    return text.replace("%", "%%")


class RightsTransport(TransportLayer):
    """A transport that records denials in `MissingRights`."""

    def __init__(self, transport: Transport, rights: MissingRights) -> None:
        super().__init__(transport)
        self._rights = rights

    async def send(self, request: Request) -> Response:
        response = await self._inner.send(request)
        self._rights.record_answer(request, response.status, response.body)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        async with self._inner.stream(request) as stream:
            if stream.status == 200:
                self._rights.record_answer(request, 200, b"")
                yield stream
                return
            body = b"\n".join([line async for line in stream.lines])
            self._rights.record_answer(request, stream.status, body)
            yield Stream(stream.status, _single_line(body), stream.headers)


async def _single_line(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _grant_command(command: str, message: str) -> str:
    denial = _DENIAL.search(message)
    user = denial["user"] if denial is not None else ""
    account = _SERVICE_ACCOUNT.fullmatch(user)
    if account is None:
        return f"{command} --config FILE prints what {user} needs"
    flags = f"--namespace {account['namespace']} --name {account['name']}"
    return f"{command} --config FILE {flags} | kubectl apply -f -"
