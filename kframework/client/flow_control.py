"""How fast the scheduler may ask an API server: `clientConnection.qps` and `burst`, as in kube-scheduler's clients.

It stands between a client and its transport, so that what the client tries again waits for its turn again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.clock import Clock
from kframework.config.models import ClientConnection

_log = logging.getLogger(__name__)

#: A wait this long is worth a line in the log, but no more often than that, both in seconds; as in client-go.
LONG, SELDOM = 1.0, 10.0


class TokenBucket:
    """Lets `burst` through at once, and `qps` a second after that, in the order in which they come.

    Whoever is cancelled while it waits has used up its turn all the same.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self._interval = 1 / qps
        self._credit = (burst - 1) * self._interval
        self._clock = clock
        #: When the bucket will be full again.
        self._full_at = -math.inf

    async def admit(self) -> float:
        """Wait for one's turn; return for how many seconds."""
        now = self._clock.now()
        self._full_at = max(self._full_at, now) + self._interval
        wait = self._full_at - self._interval - self._credit - now
        if wait <= 0:
            return 0.0
        await asyncio.sleep(wait)
        return wait


class FlowControl(TransportLayer):
    """A transport that lets requests wait for their turn; streams do not count, as in client-go.

    `tell` is told the method of each request that may have waited, and for how many seconds it has.
    """

    def __init__(
        self,
        transport: Transport,
        settings: ClientConnection,
        clock: Clock,
        tell: Callable[[str, float], None] = lambda method, seconds: None,
    ) -> None:
        super().__init__(transport)
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._buckets: tuple[TokenBucket, TokenBucket] | None = None
        if settings.qps > 0:
            all_else, events = (TokenBucket(settings.qps, settings.burst, clock) for _ in range(2))
            self._buckets = all_else, events
        self._said_at = -math.inf

    async def send(self, request: Request) -> Response:
        """Send a request when its turn comes; its timeout counts from then on."""
        if self._buckets is not None:
            # Events have a bucket of their own: kube-scheduler's recorder has its own client.
            bucket = self._buckets[request.is_event]
            waited = await bucket.admit()
            self._tell(request.method, waited)
            self._log(waited)
        return await self._inner.send(request)

    def _log(self, seconds: float) -> None:
        now = self._clock.now()
        if seconds < LONG or now < self._said_at + SELDOM:
            return
        self._said_at = now
        limit = f"{self._settings.qps:g} a second and bursts of {self._settings.burst}"
        _log.info(
            "a request has waited %.1f s for its turn: clientConnection allows %s (qps -1 lifts the limit)",
            seconds,
            limit,
        )
