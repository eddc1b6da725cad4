"""An API server that does not answer, or that rejects the credentials: logged in one line, and again when it ends.

Clients retry forever. Their failures are recorded here, where all requests pass, so that retries can be silent.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kframework.client.transport import Request, Response, Stream, Transport, TransportLayer
from kframework.clock import Clock
from kframework.errors import ClusterError
from kframework.verbosity import NOTICE

_log = logging.getLogger(__name__)

#: For how many seconds no request may be answered before a server that has answered counts as unreachable.
UNREACHABLE_AFTER = 5.0

_CHECK_ADDRESS = "check that it runs, and the address (--kubeconfig, --context, --master)"
_CHECK_USER = "rejects the credentials: log in again, or correct the user's token or certificate"


def is_connection_problem(error: ClusterError) -> bool:
    """Return whether `Reachability` logs an error: a missing answer, or rejected credentials."""
    return error.status in (0, 401)


class Reachability:
    """The state of the connection to a server, which messages describe as `server`; safe in any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._has_answered = False
        self._failing_since: float | None = None
        self._problem = ""

    def record_answer(self, server: str, status: int) -> None:
        self._has_answered, self._failing_since = True, None
        if status == 401:
            self._report(server, _CHECK_USER)
        elif self._problem:
            self._problem = ""
            _log.log(NOTICE, "%s answers again", server)

    def record_failure(self, server: str, error: ClusterError) -> None:
        """Record a request without an answer."""
        now = self._clock.now()
        since = self._failing_since = now if self._failing_since is None else self._failing_since
        if not self._has_answered or now >= since + UNREACHABLE_AFTER:
            why = error.message.partition(": ")[2] or error.message  # without the request
            self._report(server, f"does not answer: {why}; {_CHECK_ADDRESS}")

    def _report(self, server: str, problem: str) -> None:
        kind = problem.partition(":")[0]
        if self._problem != kind:
            self._problem = kind
            _log.error("%s %s; retrying", server, problem)


class ReachabilityTransport(TransportLayer):
    """A transport that records in `Reachability` whether its requests are answered."""

    def __init__(self, transport: Transport, reachability: Reachability, server: str) -> None:
        super().__init__(transport)
        self._reachability = reachability
        self._server = server

    async def send(self, request: Request) -> Response:
        try:
            response = await self._inner.send(request)
        except ClusterError as error:
            self._record(error)
            raise
        self._reachability.record_answer(self._server, response.status)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        try:
            async with self._inner.stream(request) as stream:
                self._reachability.record_answer(self._server, stream.status)
                yield stream
        except ClusterError as error:
            self._record(error)
            raise

    def _record(self, error: ClusterError) -> None:
        if not error.status:
            self._reachability.record_failure(self._server, error)
