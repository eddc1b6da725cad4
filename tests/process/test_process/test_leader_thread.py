"""The election goes on beside the scheduler, ends with it, and ends when the scheduler hangs."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import anyio
import pytest
from msgspec.structs import replace

from kframework.client.cluster import Cluster
from kframework.clock import SystemClock
from kframework.config.duration import Duration
from kframework.config.models import LeaderElectionSettings
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, CoreEvent, Lease
from kframework.process import process
from kframework.process.process import LeaderThread

SETTINGS = LeaderElectionSettings().model_copy(update={"retry_period": Duration(0.001)})


class StandingClock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time


class Side:
    """A cluster, the clients that were opened to it, and a candidate; `before` is asked before each of its requests."""

    def __init__(
        self, name: str = "a", cluster: MemoryCluster | None = None, settings: LeaderElectionSettings = SETTINGS
    ) -> None:
        self.cluster = cluster or MemoryCluster(SystemClock())
        self.cluster.faults.append(self._request)
        self.clock = StandingClock()
        self.before: Callable[[str], Fault | None] = lambda method: None
        self.log: list[str] = []
        self.threads: set[str] = set()
        self.stopped = threading.Event()
        self.leader = LeaderThread(
            self.connect,
            settings,
            self.clock,
            identity=name,
            component="default-scheduler",
            random=Random(name),
            on_lost=self._lost,
        )
        self._renewals = 0
        self._renewing = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Cluster]:
        self.threads.add(threading.current_thread().name)
        self.log.append("opened")
        try:
            yield self.cluster
        finally:
            await asyncio.sleep(0)
            self.log.append("closed")

    def _request(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method == "update":
            self._renewals += 1
            self._loop.call_soon_threadsafe(self._renewing.set)
        if kind is not CoreEvent:
            self.log.append(method)
        return self.before(method)

    def _lost(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.log.append("lost")
        self.stopped.set()

    async def renewed(self) -> None:
        """Wait until a renewal that began later is over: the next may have begun before, and the third is another."""
        wanted = self._renewals + 3
        while self._renewals < wanted:
            self._renewing.clear()
            await self._renewing.wait()

    @property
    def holder(self) -> str | None:
        return self.cluster.read(Lease, "kube-scheduler", "kube-system").spec.holder_identity


async def test_leader_leads_until_it_leaves() -> None:
    side = Side()
    async with side.leader as leader:
        await leader.wait_until_elected()
        assert leader.leading
        await side.renewed()
        assert side.holder == "a"
        assert "lost" not in side.log
    assert not leader.leading
    assert side.holder == ""
    assert side.log[-4:] == ["lost", "get", "update", "closed"]
    assert side.threads == {"leader-election"}


async def test_released_lease_is_not_reported_as_lost() -> None:
    """The next one leads while this one has not left."""
    first = Side("a")
    second = Side("b", first.cluster)
    async with first.leader:
        await first.leader.wait_until_elected()
        async with second.leader:
            lost = asyncio.create_task(first.leader.wait_until_lost())
            first.leader.release()
            await second.leader.wait_until_elected()
            assert (first.leader.leading, second.leader.leading) == (False, True)
            assert not lost.done() and "lost" not in first.log
            first.leader.release()
            lost.cancel()


async def test_scheduler_that_crashes_gives_the_lease_up() -> None:
    side = Side()
    with pytest.raises(RuntimeError, match="out of luck"):
        async with side.leader as leader:
            await leader.wait_until_elected()
            raise RuntimeError("out of luck")
    assert (side.holder, side.log[-1]) == ("", "closed")


async def test_scheduler_that_is_cancelled_gives_the_lease_up() -> None:
    side, before = Side(), asyncio.all_tasks()
    with anyio.CancelScope() as scope:
        async with side.leader as leader:
            await leader.wait_until_elected()
            scope.cancel()
            await asyncio.sleep(0)
            raise AssertionError
    assert (side.holder, side.log[-1]) == ("", "closed")
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_next_one_leads_when_the_first_has_left() -> None:
    first = Side("a")
    second = Side("b", first.cluster)
    async with first.leader:
        await first.leader.wait_until_elected()
        async with second.leader:
            elected = asyncio.create_task(second.leader.wait_until_elected())
            await first.renewed()
            assert not elected.done()
            await first.leader.__aexit__(None, None, None)
            await elected
            assert (first.leader.leading, second.leader.leading) == (False, True)


async def test_lease_that_cannot_be_renewed_is_lost_on_time() -> None:
    side = Side()
    async with side.leader as leader:
        await leader.wait_until_elected()
        side.before = lambda method: Fault(error=ClusterError("gone", status=503)) if method == "update" else None
        side.clock.time += 9.9
        await side.renewed()
        assert leader.leading
        side.clock.time += 0.1
        assert not leader.leading
        side.before = lambda method: None
        await leader.wait_until_lost()
    log = [each for each in side.log if each != "get"]
    assert log[log.index("lost") :] == ["lost", "update", "closed"]
    assert side.holder == ""


async def test_lease_that_another_has_taken_is_lost() -> None:
    side = Side()

    def steal(method: str) -> None:
        side.before = lambda method: None
        found = side.cluster.read(Lease, "kube-scheduler", "kube-system")
        side.cluster.replace(replace(found, spec=replace(found.spec, holder_identity="b")))

    async with side.leader as leader:
        await leader.wait_until_elected()
        side.before = steal
        await leader.wait_until_lost()
        assert side.stopped.is_set()
    assert side.holder == "b"


@pytest.mark.blocks_loop
async def test_loss_is_reported_before_the_lease_is_released() -> None:
    side, hold = Side(), threading.Event()
    async with side.leader as leader:
        await leader.wait_until_elected()
        # The release begins by a look at the lease, and is not answered as long as the test likes.
        side.before = lambda method: _held(hold) if method == "get" and side.stopped.is_set() else None
        side.clock.time += 10
        await leader.wait_until_lost()
        assert side.holder == "a"
        hold.set()
    assert side.holder == ""


def _held(hold: threading.Event) -> None:
    hold.wait(30)


async def test_scheduler_that_hangs_loses_the_lease(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "HEARTBEAT_INTERVAL", 1e6)
    side = Side()
    async with side.leader as leader:
        await leader.wait_until_elected()
        for _ in range(4):
            side.clock.time += 5  # up to the renew deadline and ten seconds more
            await side.renewed()
        assert leader.leading
        side.clock.time += 0.1
        await leader.wait_until_lost()
        assert not leader.leading
    assert side.holder == ""
    assert "lost lease kube-system/kube-scheduler: the scheduler hangs" in caplog.messages


async def test_scheduler_that_runs_keeps_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "HEARTBEAT_INTERVAL", 0.0)
    side = Side()
    async with side.leader as leader:
        await leader.wait_until_elected()
        for _ in range(10):
            side.clock.time += 9
            await asyncio.sleep(0)  # lets the heart beat
            await side.renewed()
        assert leader.leading


@pytest.mark.blocks_loop
async def test_lease_goes_to_others_while_the_loop_is_still_blocked() -> None:
    side = Side()
    async with side.leader as leader:
        await leader.wait_until_elected()
        released = threading.Event()
        # The event that comes last.
        side.before = lambda method: released.set() if method == "create" and side.stopped.is_set() else None
        side.clock.time += 20.1
        assert side.stopped.wait(30)
        assert released.wait(30)
        assert side.holder == ""
        await leader.wait_until_lost()


async def test_failed_election_is_raised_to_the_waiting_scheduler() -> None:
    side = Side()

    @asynccontextmanager
    async def refuse() -> AsyncIterator[Cluster]:
        raise ClusterError("Unauthorized", status=401)
        yield

    side.leader._connect = refuse
    async with side.leader as leader:
        with pytest.raises(ClusterError, match="Unauthorized"):
            await leader.wait_until_elected()
        await leader.wait_until_lost()
        assert (leader.leading, leader.problem()) == (False, None)
    assert side.log == []


async def test_connection_that_hangs_is_given_up_on_leaving() -> None:
    side, connecting = Side(), threading.Event()

    @asynccontextmanager
    async def hang() -> AsyncIterator[Cluster]:
        connecting.set()
        try:
            await asyncio.get_running_loop().create_future()
            yield side.cluster
        finally:
            side.log.append("given up")

    side.leader._connect = hang
    async with side.leader:
        await asyncio.to_thread(connecting.wait)
    assert side.log == ["given up"]


async def test_client_that_does_not_close_does_not_block_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("RELEASE_TIMEOUT", "CLOSE_TIMEOUT"):
        monkeypatch.setattr(process, limit, 0.1)
    side, close = Side(settings=SETTINGS.model_copy(update={"renew_deadline": Duration(0.1)})), asyncio.Event()

    @asynccontextmanager
    async def hang() -> AsyncIterator[Cluster]:
        yield side.cluster
        await close.wait()

    side.leader._connect = hang
    async with side.leader as leader:
        await leader.wait_until_elected()
    assert not leader._ended.is_set()
    leader._loop.call_soon_threadsafe(close.set)
    await leader._ended.wait()


async def test_election_that_breaks_down_is_lost_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    side = Side()

    def break_down(method: str) -> None:
        if method == "update":
            side.before = lambda method: None
            raise RuntimeError("no such bug")

    async with side.leader as leader:
        await leader.wait_until_elected()
        side.before = break_down
        await leader.wait_until_lost()
        assert side.stopped.is_set()
    assert side.holder == ""
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.message == "leader election failed"
    assert "no such bug" in caplog.text


@pytest.mark.blocks_loop
async def test_leadership_without_an_end_is_a_problem() -> None:
    side = Side()
    assert side.leader.problem() is None
    hold = threading.Event()
    async with side.leader as leader:
        await leader.wait_until_elected()
        assert leader.problem() is None
        entered = threading.Event()

        def stand_still(method: str) -> None:
            side.before = lambda method: None
            entered.set()
            hold.wait(30)

        side.before = stand_still
        await asyncio.to_thread(entered.wait)
        side.clock.time += 100
        assert leader.problem() == "failed election to renew leadership on lease kube-scheduler"
        hold.set()
        await leader.wait_until_lost()
        assert leader.problem() is None
