"""The outbox writes statuses first and events last, and nothing that need not be written."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, run_virtual
from kframework.cluster.memory import Fault, MemoryCluster
from kframework.errors import ClusterError
from kframework.objects import Event, ObjectMeta, Pod, PodCondition
from kframework.outbox import MAX_EVENTS, Outbox
from kframework.state.pods import Interned, PendingPod
from kframework.testing import make_pod

FALSE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
EVICTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


class Desk:
    """An outbox in front of a cluster that notes the calls."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(LoopClock(asyncio.get_running_loop()), [make_pod("p"), make_pod("q")])
        self.calls: list[str] = []
        self.cluster.faults.append(lambda method, kind, namespace, name: self.calls.append(f"{method} {name}"))
        self.outbox = Outbox(self.cluster)

    def pod(self, name: str) -> PendingPod:
        return PendingPod(self.cluster.read(Pod, name, "default"), Interned())

    def fail(self, fault: Fault, method: str) -> None:
        self.cluster.faults.append(lambda called, *_: fault if called == method else None)


def event(name: str) -> Event:
    return Event(metadata=ObjectMeta(name=name, namespace="default"), event_time="2026-01-01T00:00:00.000000Z")


def at_a_desk(work: Callable[[Desk], Coroutine[object, object, None]]) -> None:
    async def main() -> None:
        await work(Desk())

    run_virtual(main)


def test_statuses_come_before_events() -> None:
    async def work(desk: Desk) -> None:
        desk.outbox.record(event("e"))
        for name in "pq":
            desk.outbox.patch_status(desk.pod(name), FALSE, None)
        assert not desk.outbox.empty
        await desk.outbox.flush()
        assert desk.outbox.empty
        assert desk.calls == ["patch_pod_status p", "patch_pod_status q", "record_event e"]

    at_a_desk(work)


@pytest.mark.parametrize(
    ("patches", "message", "node"),
    [
        ([(FALSE, None)], "no room", ""),
        ([(FALSE, "a"), (replace(FALSE, message="newer"), None)], "newer", "a"),
        ([(None, "a"), (FALSE, "")], "no room", ""),
        ([(FALSE, None), (None, "b")], "no room", "b"),
    ],
)
def test_a_later_status_is_merged_into_the_one_that_waits(
    patches: list[tuple[PodCondition | None, str | None]], message: str, node: str
) -> None:
    async def work(desk: Desk) -> None:
        for condition, nominated in patches:
            desk.outbox.patch_status(desk.pod("p"), condition, nominated)
        await desk.outbox.flush()
        assert desk.calls == ["patch_pod_status p"]
        status = desk.pod("p").status
        assert ([c.message for c in status.conditions], status.nominated_node_name) == ([message], node)

    at_a_desk(work)


def test_what_the_pod_says_already_is_not_written() -> None:
    async def work(desk: Desk) -> None:
        desk.outbox.patch_status(desk.pod("p"), FALSE, "a")
        await desk.outbox.flush()
        pod = desk.pod("p")
        desk.outbox.patch_status(pod, FALSE, None)
        desk.outbox.patch_status(pod, replace(FALSE, observed_generation=7), "a")
        desk.outbox.patch_status(pod, None, "a")
        assert desk.outbox.empty
        for condition, nominated in ((replace(FALSE, message="else"), None), (FALSE, ""), (EVICTED, None)):
            desk.outbox.patch_status(pod, condition, nominated)
            assert not desk.outbox.empty
            desk.outbox.drop_status(pod.uid)

    at_a_desk(work)


def test_what_undoes_a_write_under_way_is_written() -> None:
    async def work(desk: Desk) -> None:
        desk.fail(Fault(delay=1.0), "patch_pod_status")
        pod = desk.pod("p")
        desk.outbox.patch_status(pod, None, "a")
        flushed = asyncio.ensure_future(desk.outbox.flush())
        await asyncio.sleep(0.5)
        desk.outbox.patch_status(pod, None, "")
        await flushed
        assert desk.pod("p").status.nominated_node_name == ""

    at_a_desk(work)


def test_a_binding_takes_the_place_of_a_waiting_status() -> None:
    async def work(desk: Desk) -> None:
        desk.outbox.patch_status(desk.pod("p"), FALSE, "a")
        desk.outbox.drop_status(desk.pod("p").uid)
        desk.outbox.drop_status("unknown")
        await desk.outbox.flush()
        assert desk.calls == []

    at_a_desk(work)


@pytest.mark.parametrize(
    ("status", "tries", "logged"), [(404, 1, 0), (403, 1, 1), (409, 4, 1), (500, 4, 1), (503, 4, 1), (0, 4, 1)]
)
def test_a_write_that_fails_is_logged_and_dropped(
    status: int, tries: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(desk: Desk) -> None:
        desk.fail(Fault(error=ClusterError("no", status=status)), "patch_pod_status")
        desk.outbox.patch_status(desk.pod("p"), FALSE, None)
        desk.outbox.record(event("e"))
        await desk.outbox.flush()
        assert desk.calls == ["patch_pod_status p"] * tries + ["record_event e"]
        assert asyncio.get_running_loop().time() == (pytest.approx(0.31) if tries == 4 else 0)

    with caplog.at_level(logging.WARNING):
        at_a_desk(work)
    assert [record.getMessage() for record in caplog.records] == ["a write was refused: no"] * logged


def test_a_status_that_is_refused_once_is_written_all_the_same() -> None:
    async def work(desk: Desk) -> None:
        faults = [Fault(error=ClusterError("no", status=500))]
        desk.cluster.faults.append(lambda *_: faults.pop() if faults else None)
        written = desk.outbox.patch_status(desk.pod("p"), None, "a")
        await desk.outbox.flush()
        assert desk.pod("p").status.nominated_node_name == "a"
        assert await written is None

    at_a_desk(work)


def test_whoever_asked_for_a_status_is_told_what_became_of_it() -> None:
    async def work(desk: Desk) -> None:
        refused = ClusterError("no", status=403)
        assert await desk.outbox.patch_status(desk.pod("p"), None, "") is None, "there is nothing to write"
        first = desk.outbox.patch_status(desk.pod("p"), None, "a")
        assert desk.outbox.patch_status(desk.pod("p"), FALSE, None) is first, "they are one write"
        dropped = desk.outbox.patch_status(desk.pod("q"), FALSE, None)
        desk.outbox.drop_status(desk.pod("q").uid)
        assert await dropped is None
        desk.fail(Fault(error=refused), "patch_pod_status")
        await desk.outbox.flush()
        assert await first is refused
        given_up = desk.outbox.patch_status(desk.pod("p"), None, "b")
        given_up.cancel()
        await desk.outbox.flush()

    at_a_desk(work)


def test_too_many_events_push_out_the_oldest() -> None:
    async def work(desk: Desk) -> None:
        for number in range(MAX_EVENTS + 2):
            desk.outbox.record(event(f"e{number}"))
        await desk.outbox.flush()
        assert desk.calls[0] == "record_event e2"
        assert len(desk.calls) == MAX_EVENTS

    at_a_desk(work)


def test_it_writes_whenever_there_is_something_to_write() -> None:
    async def work(desk: Desk) -> None:
        emptied: list[int] = []
        desk.outbox = Outbox(desk.cluster, on_empty=lambda: emptied.append(len(desk.calls)))
        task = asyncio.ensure_future(desk.outbox.run())
        for name in ("e", "f"):
            desk.outbox.record(event(name))
            await asyncio.sleep(1.0)
        assert desk.calls == ["record_event e", "record_event f"]
        assert emptied == [1, 2]
        task.cancel()

    at_a_desk(work)
