"""Leader election in a thread of its own: a scheduler that is slow keeps its lease, one that hangs does not.

The thread has its own event loop and its own client of the cluster. All that it shares with the scheduler is when the
scheduler's loop last ran, and whether this process leads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from random import Random
from types import TracebackType

import anyio

from kframework.client.cluster import Cluster
from kframework.clock import Clock
from kframework.config.models import LeaderElection as LeaderElectionSettings
from kframework.process.lease import RELEASING, LeaderElection

_log = logging.getLogger(__name__)

#: How often the scheduler's loop shows that it runs, in seconds.
BEAT = 1.0

#: How much longer than the renew deadline the scheduler's loop may stand still before it counts as hung, in seconds.
PATIENCE = 10.0

#: What is left to the thread on leaving beyond the time for giving up the lease, in seconds.
CLOSING = 1.0


class LeaderThread:
    """Contends for the lease while its context is entered; leaving it, for whatever reason, gives the lease up.

    `connect` opens the thread's own client, in that thread, and closes it. `on_lost` is called in that thread when the
    leadership ends unasked, before anyone else can have it and however long the scheduler's loop stands still by then:
    it must only set a flag, after which nothing is written any more. What has to be written is written before leaving.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Cluster]],
        settings: LeaderElectionSettings,
        clock: Clock,
        *,
        identity: str,
        component: str,
        random: Random,
        on_lost: Callable[[], None],
    ) -> None:
        self.identity = identity
        self._connect = connect
        self._settings = settings
        self._clock = clock
        self._on_lost = on_lost
        self._candidate = partial(
            LeaderElection,
            settings=settings,
            clock=clock,
            identity=identity,
            component=component,
            random=random,
            on_started=self._started,
            on_stopped=self._stopped,
            may_lead=self._scheduler_runs,
        )
        self._election: LeaderElection | None = None
        self._led = self._released = False
        self._failure: Exception | None = None
        self._beaten = 0.0
        self._won, self._lost, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this process leads now; any thread may ask."""
        return self._election is not None and self._election.leading

    def problem(self) -> str | None:
        """Say if the leadership ought to have been renewed or ended long ago; any thread may ask."""
        return self._election.problem() if self._election is not None else None

    async def won(self) -> None:
        """Wait until this process leads; raises what put an end to the election before."""
        await self._won.wait()
        if self._failure is not None:
            raise self._failure

    async def lost(self) -> None:
        """Wait until this process leads no more; the log says why."""
        await self._lost.wait()

    # -- in the scheduler's thread ---------------------------------------------------------------------------------

    def release(self) -> None:
        """Give the lease up before leaving; whoever asks for it writes nothing any more by which two would lead."""
        self._released = True
        self._end()

    def _end(self) -> None:
        with suppress(RuntimeError):  # the thread's loop is closed: it has ended already
            self._loop.call_soon_threadsafe(self._contending.cancel)

    async def __aenter__(self) -> LeaderThread:
        self._scheduler_loop = asyncio.get_running_loop()
        self._loop = asyncio.new_event_loop()
        self._contending = anyio.CancelScope()
        self._beaten = self._clock.now()
        self._beating = asyncio.create_task(self._beat())
        # A daemon, so that a thread that cannot end does not keep the process from ending.
        threading.Thread(target=self._run, name="leader-election", daemon=True).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._beating.cancel()
        self._end()
        with anyio.move_on_after(RELEASING + CLOSING, shield=True):
            await self._ended.wait()

    async def _beat(self) -> None:
        """Show for ever that the scheduler's loop runs."""
        while True:
            self._beaten = self._clock.now()
            await asyncio.sleep(BEAT)

    # -- in the election's thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        """Contend for the lease in this thread's loop, and tell the scheduler's about its end."""
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._contend())
        except Exception as error:
            self._failure = error
            if self._led:
                _log.exception("leader election broke down")
        finally:
            for event in (self._won, self._ended) if self._released else (self._won, self._lost, self._ended):
                self._tell(event)

    async def _contend(self) -> None:
        """Contend for the lease until it is lost; the client is closed even when that is cancelled."""
        async with AsyncExitStack() as closing:
            with self._contending:
                cluster = await closing.enter_async_context(self._connect())
                self._election = self._candidate(cluster)
                await self._election.run()

    def _started(self) -> None:
        self._led = True
        self._tell(self._won)

    def _stopped(self) -> None:
        if not self._released:
            self._on_lost()
            self._tell(self._lost)

    def _scheduler_runs(self) -> bool:
        return self._clock.now() - self._beaten <= self._settings.renew_deadline + PATIENCE

    def _tell(self, event: asyncio.Event) -> None:
        """Set an event of the scheduler's loop."""
        with suppress(RuntimeError):  # that loop is closed: nobody waited until this thread had ended
            self._scheduler_loop.call_soon_threadsafe(event.set)
