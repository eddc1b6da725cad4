"""The outbox does each write once, in order for each pod, and events delay no other write."""

from __future__ import annotations

import asyncio
import logging
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from random import Random

import anyio
import pytest
from msgspec.structs import replace

from kframework.client.event_record import EventRecord, PodReference, SeriesKey
from kframework.client.transport import STOPPED
from kframework.clock import LoopClock, run_virtual
from kframework.core.host import PodEvent
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Event, Pod, PodCondition
from kframework.scheduler import outbox
from kframework.scheduler.event_recorder import EventRecorder
from kframework.scheduler.outbox import DENIED_EVENT_TRIES, EVENT_TRIES, MAX_CONCURRENT, Outbox, WriteResult
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import make_pod

FALSE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
EVICTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
SLOW = Fault(delay=1.0)


class Desk:
    """An outbox in front of a cluster that notes the calls and when they came; `emptied` says when it was empty."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        clock = LoopClock(self.loop)
        self.cluster = MemoryCluster(clock, map(make_pod, ["p", "q", *map(str, range(MAX_CONCURRENT + 1))]))
        self.calls: list[str] = []
        self.times: list[float] = []
        self.faults: dict[str, Fault | Iterable[Fault | None]] = {}
        self.emptied: list[float] = []
        self.cluster.faults.append(self._called)
        self._empty = asyncio.Event()
        self.outbox = Outbox(self.cluster, clock, Random(0), self._note_empty)

    def _note_empty(self) -> None:
        self.emptied.append(self.loop.time())
        self._empty.set()

    def _called(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        self.calls.append(f"{method} {name.partition('.')[0]}")
        self.times.append(self.loop.time())
        fault = self.faults.get(method)
        return fault if fault is None or isinstance(fault, Fault) else next(iter(fault), None)

    def pod(self, name: str) -> PendingPod:
        return PendingPod(self.cluster.read(Pod, name, "default"), TemplateInterner())

    def patch(self, name: str, condition: PodCondition | None = FALSE, node_name: str | None = None) -> WriteResult:
        return self.outbox.patch_status(self.pod(name), condition, node_name)

    async def written(self) -> None:
        """Wait until all is written."""
        self._empty.clear()
        if not self.outbox.is_empty:
            await self._empty.wait()


def event(name: str, count: int = 1) -> EventRecord:
    """An event about a pod of this name, which its own name begins with."""
    pod = PodReference("default", name, "")
    return EventRecord(SeriesKey("s", "Scheduled", "Binding", False, pod), "", 0.0, 0, 0.0, count)


def refused(status: int) -> Fault:
    return Fault(error=ClusterError("no", status=status))


def at_a_desk(work: Callable[[Desk], Coroutine[object, object, None]]) -> None:
    async def main() -> None:
        desk = Desk()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.outbox.run)
            await work(desk)
            tasks.cancel_scope.cancel()

    run_virtual(main)


@pytest.mark.parametrize(
    ("patches", "message", "node"),
    [
        ([(FALSE, None)], "no room", ""),
        ([(FALSE, "a"), (replace(FALSE, message="newer"), None)], "newer", "a"),
        ([(None, "a"), (FALSE, "")], "no room", ""),
        ([(FALSE, None), (None, "b")], "no room", "b"),
    ],
)
def test_later_status_is_merged_into_the_one_that_waits(
    patches: list[tuple[PodCondition | None, str | None]], message: str, node: str
) -> None:
    async def work(desk: Desk) -> None:
        for condition, nominated in patches:
            desk.patch("p", condition, nominated)
        await desk.written()
        assert desk.calls == ["patch_pod_status p"]
        status = desk.pod("p").status
        assert ([c.message for c in status.conditions], status.nominated_node_name) == ([message], node)

    at_a_desk(work)


def test_status_that_the_pod_has_already_is_not_written() -> None:
    async def work(desk: Desk) -> None:
        await desk.patch("p", FALSE, "a")
        pod = desk.pod("p")
        desk.outbox.patch_status(pod, FALSE, None)
        desk.outbox.patch_status(pod, replace(FALSE, observed_generation=7), "a")
        desk.outbox.patch_status(pod, None, "a")
        assert desk.outbox.is_empty
        for condition, nominated in ((replace(FALSE, message="else"), None), (FALSE, ""), (EVICTED, None)):
            desk.outbox.patch_status(pod, condition, nominated)
            assert not desk.outbox.is_empty
            await desk.outbox.wait_for_write(pod.uid)

    at_a_desk(work)


def test_condition_has_its_transition_time() -> None:
    """So the pod need not be read before it is patched."""
    said: list[PodCondition | None] = []

    async def work(desk: Desk) -> None:
        patch = desk.cluster.patch_pod_status

        async def noting(*args: str, condition: PodCondition | None, nominated_node_name: str | None) -> None:
            said.append(condition)
            await patch(*args, condition=condition, nominated_node_name=nominated_node_name)

        desk.cluster.patch_pod_status = noting  # type: ignore[assignment, method-assign]  # for this test
        true = replace(FALSE, status="True")
        for condition in (FALSE, replace(FALSE, message="newer"), true, EVICTED):
            await asyncio.sleep(60.0)
            await desk.patch("p", condition)
        await desk.patch("p", None, "a")
        running = PodInfo(make_pod("q", node_name="n"), TemplateInterner())
        await desk.outbox.patch_status(running, EVICTED, None)

    at_a_desk(work)
    since = [condition and condition.last_transition_time for condition in said]
    minutes = [time and time.removeprefix("2026-01-01T00:0").removesuffix(":00Z") for time in since]
    assert minutes == ["1", "1", "3", "4", None, None]


def test_statuses_are_written_side_by_side_but_not_too_many_at_a_time() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = SLOW
        for number in range(MAX_CONCURRENT + 1):
            desk.patch(str(number))
        await desk.written()
        assert desk.times == [0.0] * MAX_CONCURRENT + [1.0]

    at_a_desk(work)


def test_of_one_pod_one_write_is_in_flight_at_a_time() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = SLOW
        pod = desk.pod("p")
        desk.outbox.patch_status(pod, None, "a")
        await asyncio.sleep(0.5)
        desk.outbox.patch_status(pod, None, "b")
        desk.outbox.patch_status(pod, None, "")  # what the pod says, but not for long
        await desk.written()
        assert (desk.times, desk.pod("p").status.nominated_node_name) == ([0.0, 1.0], "")
        assert desk.emptied == [2.0]

    at_a_desk(work)


@pytest.mark.parametrize(
    ("status", "tries", "logged"), [(404, 1, 0), (403, 1, 1), (409, 4, 1), (500, 4, 1), (503, 4, 1), (0, 4, 1)]
)
def test_status_that_cannot_be_written_is_logged_and_dropped(
    status: int, tries: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = refused(status)
        error = await desk.patch("p")
        assert error is not None and error.status == status
        assert desk.calls == ["patch_pod_status p"] * tries
        pauses = [after - before for before, after in zip(desk.times, desk.times[1:], strict=False)]
        for pause, least in zip(pauses, (0.01, 0.05, 0.25), strict=False):
            assert least <= pause <= 1.1 * least + 1e-9

    with caplog.at_level(logging.WARNING):
        at_a_desk(work)
    assert caplog.messages == ["cannot write the status of a pod: no"] * logged


def test_missing_right_is_reported_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    message = (
        'pods "p" is forbidden: User "me" cannot patch resource "pods/status" in API group "" in the namespace "a"'
    )

    async def work(desk: Desk) -> None:
        denied = Fault(error=ClusterError(message, status=403))
        desk.faults["patch_pod_status"] = desk.faults["record_event"] = denied
        await desk.patch("p")
        desk.outbox.record(event("e"))
        await asyncio.sleep(10.0)
        assert desk.outbox.dropped == {"queue_full": 0, "write_failed": 1}

    at_a_desk(work)
    assert caplog.messages == []


def test_status_that_is_refused_once_is_written_all_the_same() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = iter([refused(500)])
        assert await desk.patch("p", None, "a") is None
        assert desk.pod("p").status.nominated_node_name == "a"

    at_a_desk(work)


def test_status_write_reports_its_result_to_the_caller() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = refused(403)
        assert await desk.patch("p", None, "") is None, "there is nothing to write"
        first, second = desk.patch("p", None, "a"), desk.patch("p")
        dropped = desk.patch("q")
        await desk.outbox.wait_for_write(desk.pod("q").uid)
        assert await dropped is None
        error = await first
        assert error is not None and error.status == 403
        assert await second is error, "they are one write"
        waited_for = desk.patch("p", None, "b")
        given_up = asyncio.ensure_future(waited_for)
        asyncio.get_running_loop().call_soon(given_up.cancel)
        assert await waited_for is not None and given_up.cancelled()

    at_a_desk(work)


def test_binding_takes_the_place_of_a_waiting_status() -> None:
    async def work(desk: Desk) -> None:
        desk.patch("p", FALSE, "a")
        await desk.outbox.wait_for_write(desk.pod("p").uid)
        await desk.outbox.wait_for_write("unknown")
        assert desk.outbox.is_empty
        await asyncio.sleep(1)
        assert desk.calls == []

    at_a_desk(work)


def test_binding_waits_for_the_status_in_flight_and_drops_the_next_one() -> None:
    """Else the pod's condition could say that it is unschedulable after it was bound."""

    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = SLOW
        first = desk.patch("p")
        await asyncio.sleep(0.5)
        second = desk.patch("p", replace(FALSE, message="newer"))
        await desk.outbox.wait_for_write(desk.pod("p").uid)
        assert desk.loop.time() == 1.0
        assert (await first, await second) == (None, None)
        await desk.written()
        assert desk.calls == ["patch_pod_status p"]

    at_a_desk(work)


@pytest.mark.parametrize(("delay", "tries"), [(1.0, 1), (0.0, 2)], ids=["while it is tried", "while it rests"])
def test_status_that_is_refused_is_not_tried_again_when_a_binding_waits(delay: float, tries: int) -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = Fault(error=ClusterError("no", status=500), delay=delay)
        desk.patch("p")
        await asyncio.sleep(0.03)
        await desk.outbox.wait_for_write(desk.pod("p").uid)
        assert len(desk.calls) == tries
        await desk.written()
        assert len(desk.calls) == tries

    at_a_desk(work)


def test_binding_waits_for_no_event_and_no_other_pod() -> None:
    async def work(desk: Desk) -> None:
        desk.faults |= {"record_event": Fault(delay=60.0), "patch_pod_status": SLOW}
        for number in range(MAX_CONCURRENT + 1):
            desk.patch(str(number))
            desk.outbox.record(event(f"e{number}"))
        await asyncio.sleep(0.5)
        await desk.outbox.wait_for_write(desk.pod("p").uid)
        await desk.outbox.wait_for_write(desk.pod(str(MAX_CONCURRENT)).uid)
        assert desk.loop.time() == 0.5

    at_a_desk(work)


def test_events_never_hold_up_a_status() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = Fault(delay=60.0)
        for number in range(100):
            desk.outbox.record(event(f"e{number}"))
        await asyncio.sleep(0.5)
        assert desk.calls == [f"record_event e{number}" for number in range(MAX_CONCURRENT)]
        assert await desk.patch("p") is None
        assert desk.loop.time() == 0.5

    at_a_desk(work)


def test_of_one_event_one_write_is_in_flight_at_a_time_and_the_last_one_counts() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = SLOW
        told = event("e")
        desk.outbox.record(told)
        await asyncio.sleep(0.5)
        for told.count in (2, 3):
            desk.outbox.record(told)
        await desk.written()
        assert desk.times == [0.0, 1.0]
        (written,) = desk.cluster.objects(Event)
        assert written.series == event("e", 3).event().series

    at_a_desk(work)


@pytest.mark.parametrize(
    ("fault", "count", "tries", "lost"),
    [
        (refused(0), 1, EVENT_TRIES, 1),
        (refused(429), 1, EVENT_TRIES, 1),
        (refused(503), 2, EVENT_TRIES, 1),
        (refused(401), 1, DENIED_EVENT_TRIES, 1),
        (refused(403), 2, DENIED_EVENT_TRIES, 1),
        (refused(404), 1, 1, 0),
        (refused(409), 2, EVENT_TRIES, 1),
        (refused(422), 2, 1, 1),
    ],
)
def test_event_that_cannot_be_written_now_is_tried_again_and_again_and_any_other_is_not(
    fault: Fault, count: int, tries: int, lost: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = fault
        desk.outbox.record(event("e", count))
        await desk.written()
        pauses = [after - before for before, after in zip(desk.times, desk.times[1:], strict=False)]
        assert len(desk.calls) == tries
        least = [min(2.0**number, 16.0) for number in range(len(pauses))]
        assert all(1.0 <= pause / best <= 1.25 + 1e-9 for pause, best in zip(pauses, least, strict=True))
        assert len(desk.emptied) == 1
        assert desk.outbox.dropped == {"queue_full": 0, "write_failed": lost}

    with caplog.at_level(logging.WARNING):
        at_a_desk(work)
    assert caplog.messages == ["dropped an event: no; not logged again until the queue is empty"] * lost


def test_event_is_written_when_a_server_that_has_just_started_has_read_its_roles() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = iter([*[refused(0)] * 4, *[refused(403)] * 3])
        desk.outbox.record(event("e"))
        await desk.written()
        assert len(desk.cluster.objects(Event)) == 1
        assert desk.outbox.dropped == {"queue_full": 0, "write_failed": 0}

    at_a_desk(work)


@pytest.mark.parametrize("status", [0, 429, 500, 503, 504])
def test_event_that_is_put_off_for_two_minutes_is_written_all_the_same(status: int) -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = iter([refused(status)] * (EVENT_TRIES - 1))
        desk.outbox.record(event("e"))
        await desk.written()
        assert desk.loop.time() > 120
        assert len(desk.cluster.objects(Event)) == 1

    at_a_desk(work)


def test_backing_off_event_delays_no_other_and_carries_its_latest_count() -> None:
    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = iter([refused(0)] * MAX_CONCURRENT)
        events = [event(f"e{number}") for number in range(MAX_CONCURRENT + 1)]
        for told in events:
            desk.outbox.record(told)
        await asyncio.sleep(0.5)
        assert desk.calls[-1] == f"record_event e{MAX_CONCURRENT}" and not desk.outbox.is_empty
        desk.faults["record_event"] = Fault(delay=60.0)
        events[0].count = 2
        desk.outbox.record(events[0])
        await desk.written()
        assert all(desk.calls.count(f"record_event e{number}") == 2 for number in range(MAX_CONCURRENT))
        written = desk.cluster.objects(Event)
        assert [each.metadata.name for each in written if each.series is not None] == [events[0].event().metadata.name]

    at_a_desk(work)


def test_excess_events_are_dropped_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MAX_EVENTS", 100)

    async def work(desk: Desk) -> None:
        for _ in range(2):
            events = [event(f"e{number}") for number in range(102)]
            for told in events:
                desk.outbox.record(told)
            events[7].count = 2
            desk.outbox.record(events[7])  # one that waits already may grow
            await desk.written()
        assert desk.outbox.dropped == {"queue_full": 4, "write_failed": 0}
        assert len(desk.calls) == 200

    with caplog.at_level(logging.WARNING):
        at_a_desk(work)
    line = "dropped an event: 100 are queued; not logged again until the queue is empty"
    assert caplog.messages == [line, line]


def test_backing_off_events_count_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_EVENTS", 100)

    async def work(desk: Desk) -> None:
        desk.faults["record_event"] = refused(0)
        for number in range(300):
            desk.outbox.record(event(f"e{number}"))
            await asyncio.sleep(0)
        assert desk.outbox.dropped["queue_full"] >= 200 - MAX_CONCURRENT

    at_a_desk(work)


def test_waiting_write_is_small() -> None:
    """A hundred thousand may: of each, with names as long as those of replicas, less than a kilobyte is kept."""

    async def work(desk: Desk) -> None:
        recorder = EventRecorder(LoopClock(desk.loop), desk.outbox.record, desk.outbox.record_run)
        pods = [desk.cluster.add(make_pod(f"web-6d4cf56db6-{number:05}")) for number in range(2000)]
        tracemalloc.start()
        try:
            for number, pod in enumerate(pods):
                note = f"Successfully assigned default/{pod.metadata.name} to node-{number}"
                recorder.record(
                    PodEvent("default-scheduler", PodInfo(pod, TemplateInterner()), "Scheduled", "Binding", note)
                )
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(desk.outbox._events) == 2000
        assert kept / 2000 < 1000

    at_a_desk(work)


class Calls:
    """An API that takes a second for each call of the engine and answers as given."""

    def __init__(self, desk: Desk, *failures: ClusterError) -> None:
        self.desk = desk
        self.failures = list(failures)
        self.made: list[tuple[float, str]] = []
        self.refusals: list[ClusterError] = []

    def write(self, key: str, what: str) -> None:
        self.desk.outbox.write(key, lambda: self._call(what), self.refusals.append)

    async def _call(self, what: str) -> None:
        self.made.append((self.desk.loop.time(), what))
        await asyncio.sleep(1.0)
        if self.failures:
            raise self.failures.pop(0)


def test_writes_of_one_key_are_made_one_by_one_and_only_the_newest_waits() -> None:
    async def work(desk: Desk) -> None:
        calls = Calls(desk)
        calls.write("g", "first")
        calls.write("h", "other")
        await asyncio.sleep(0.5)
        calls.write("g", "second")
        calls.write("g", "third")
        assert not desk.outbox.only_events_left
        await desk.written()
        assert calls.made == [(0.0, "first"), (0.0, "other"), (1.0, "third")]
        assert desk.emptied == [2.0] and desk.outbox.only_events_left

    at_a_desk(work)


@pytest.mark.parametrize(
    ("failures", "tries", "refused_with"),
    [([503, 0, 429], 4, []), ([500] * 6, 6, [500]), ([403], 1, [403]), ([404], 1, [404]), ([409], 1, [409])],
    ids=["it passes", "it does not pass", "forbidden", "gone", "another one"],
)
def test_write_of_the_engine_is_tried_again_while_that_may_help(
    failures: list[int], tries: int, refused_with: list[int]
) -> None:
    async def work(desk: Desk) -> None:
        calls = Calls(desk, *(ClusterError("no", status=status) for status in failures))
        calls.write("g", "it")
        await desk.written()
        assert len(calls.made) == tries
        assert [error.status for error in calls.refusals] == refused_with

    at_a_desk(work)


def test_call_that_raises_what_it_must_not_costs_itself_only(caplog: pytest.LogCaptureFixture) -> None:
    async def work(desk: Desk) -> None:
        def fail() -> Awaitable[object]:
            raise RuntimeError("out of order")

        calls = Calls(desk)
        desk.outbox.write("status of g", fail, calls.refusals.append)
        calls.write("h", "other")
        await desk.written()
        assert (calls.made, calls.refusals) == ([(0.0, "other")], [])

    at_a_desk(work)
    assert caplog.messages == ["cannot write status of g"]


def test_waiting_write_is_done_after_a_failure() -> None:
    async def work(desk: Desk) -> None:
        calls = Calls(desk, ClusterError("no", status=403))
        calls.write("g", "first")
        await asyncio.sleep(0.5)
        calls.write("g", "second")
        await desk.written()
        assert calls.made == [(0.0, "first"), (1.0, "second")]
        assert [error.status for error in calls.refusals] == [403]

    at_a_desk(work)


def test_engine_gets_no_message_of_writes_refused_at_shutdown() -> None:
    async def work(desk: Desk) -> None:
        calls = Calls(desk, ClusterError("stopped", status=403, reason=STOPPED))
        calls.write("g", "it")
        await desk.written()
        assert calls.refusals == [] and desk.outbox.is_empty

    at_a_desk(work)


def test_stopped_outbox_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def work(desk: Desk) -> None:
        desk.faults["patch_pod_status"] = refused(500)
        desk.faults["record_event"] = refused(0)
        is_backing_off = desk.patch("p")
        desk.outbox.record(event("resting"))
        await asyncio.sleep(0.03)
        waiting = desk.patch("q")
        desk.outbox.record(event("waiting"))
        calls = list(desk.calls)
        stopping = threading.Thread(target=desk.outbox.fence.close)
        stopping.start()
        stopping.join()
        for written in (is_backing_off, waiting, desk.patch("1")):
            error = await written
            assert error is not None and error.reason == "Stopped"
        desk.outbox.record(event("later"))
        await desk.written()
        assert desk.calls == calls
        with pytest.raises(ClusterError, match="lost its lease"):
            desk.outbox.fence.check()

    with caplog.at_level(logging.WARNING):
        at_a_desk(work)
    assert not caplog.messages


def test_cancelled_waiter_leaves_the_others_waiting() -> None:
    async def work(desk: Desk) -> None:
        waiting = [asyncio.ensure_future(desk.patch("p", FALSE)) for _ in range(2)]
        waiting[0].cancel()
        assert await waiting[1] is None
        assert desk.calls == ["patch_pod_status p"]

    at_a_desk(work)


@pytest.mark.parametrize("delay", [0.0, 1.0], ids=["resting", "in flight"])
def test_cancelled_run_releases_its_waiters(delay: float) -> None:
    async def main() -> None:
        desk = Desk()
        desk.faults["patch_pod_status"] = Fault(error=ClusterError("no", status=0), delay=delay)
        running = asyncio.ensure_future(desk.outbox.run())
        written = desk.patch("p")
        await asyncio.sleep(0.03)
        binding = asyncio.ensure_future(desk.outbox.wait_for_write(desk.pod("p").uid))
        await asyncio.sleep(0)
        running.cancel()
        await binding
        assert await written is None
        assert desk.outbox.is_empty

    run_virtual(main)


def test_assigned_pod_is_patched_whatever_its_status() -> None:
    """Of such a pod too little is known to tell."""

    async def work(desk: Desk) -> None:
        running = PodInfo(make_pod("p", node_name="n"), TemplateInterner())
        assert await desk.outbox.patch_status(running, None, "") is None
        assert desk.calls == ["patch_pod_status p"]

    at_a_desk(work)
