"""Events have the form that Kubernetes wants, and come as series where they come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import anyio
import pytest
from msgspec.structs import replace

from kframework import CycleState, NodeInfo, PendingPod, Status, error, unschedulable
from kframework.client.event_record import EventRecord
from kframework.clock import LoopClock, run_virtual
from kframework.core.host import PodEvent
from kframework.objects import Event
from kframework.scheduler.event_recorder import REFRESH_INTERVAL, SERIES_GAP, EventRecorder
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod
from tests.extension_points.scripted import plugin, run, scenario


class Recording:
    """A recorder whose events are kept with their times."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.written: list[tuple[float, Event]] = []
        self.recorder = EventRecorder(LoopClock(self.loop), self._write, lambda events: None)

    def _write(self, record: EventRecord) -> None:
        self.written.append((self.loop.time(), record.event()))

    @property
    def counts(self) -> list[tuple[float, int]]:
        """When something was written, and of how many events; 0 for a single one."""
        return [(at, event.series.count if event.series else 0) for at, event in self.written]

    def fail(self, pod: PodInfo, note: str = "no room") -> None:
        self.recorder.record(PodEvent("default-scheduler", pod, "FailedScheduling", "Scheduling", note, warning=True))


def recording(work: Callable[[Recording], Coroutine[object, object, None]]) -> None:
    async def main() -> None:
        rig = Recording()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(rig.recorder.run)
            await work(rig)
            tasks.cancel_scope.cancel()

    run_virtual(main)


def pending(name: str = "pod", version: str = "7") -> PendingPod:
    pod = make_pod(name)
    return PendingPod(replace(pod, metadata=replace(pod.metadata, resource_version=version)), TemplateInterner())


def test_events_have_the_form_that_kubernetes_wants() -> None:
    result = run(plugin("A", filter=lambda state, pod, node: unschedulable("no")), pods=[make_pod(), make_pod("two")])
    event, other = result.events
    assert event.metadata.namespace == "default"
    name, _, nanoseconds = event.metadata.name.rpartition(".")
    assert name == "pod"
    assert abs(int(nanoseconds, 16) - 1767225600 * 10**9) < 1000
    assert event.metadata.name != other.metadata.name
    assert event.event_time == "2026-01-01T00:00:00.000000Z"
    assert event.reporting_controller == "default-scheduler"
    assert event.reporting_instance.startswith("default-scheduler-")
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert event.series is None and event.related is None
    regarding = event.regarding
    assert (regarding.api_version, regarding.kind, regarding.namespace, regarding.name) == (
        "v1",
        "Pod",
        "default",
        "pod",
    )
    assert regarding.uid == result.pod("pod").metadata.uid
    assert regarding.resource_version, "the version in which the pod was tried"


def test_no_two_events_of_a_moment_have_one_name() -> None:
    async def work(rig: Recording) -> None:
        for version in range(100):
            rig.fail(pending(version=str(version)))
        assert len({event.metadata.name for _, event in rig.written}) == 100

    recording(work)


def test_related_object_is_named() -> None:
    async def work(rig: Recording) -> None:
        victim, preemptor = PodInfo(make_pod("victim"), TemplateInterner()), pending("urgent")
        rig.recorder.record(PodEvent("s", victim, "Preempted", "Preempting", "", related=preemptor))
        ((_, event),) = rig.written
        assert (event.type, event.regarding.name, event.regarding.resource_version) == ("Normal", "victim", "")
        assert event.related is not None
        assert (event.related.name, event.related.resource_version) == ("urgent", "7")

    recording(work)


@pytest.mark.parametrize(
    ("reason", "size"), [("x" * 900, None), ("x" * 2000, 1024), ("é" * 900, 1024), ("x" + "é" * 900, 1023)]
)
def test_long_notes_are_cut_and_messages_are_not(reason: str, size: int | None) -> None:
    result = run(plugin("A", filter=unschedulable(reason)))
    message = f"0/1 nodes are available: 1 {reason}."
    assert result.message_of("pod") == message
    ((_, note),) = result.events_on("pod")
    if size is None:
        assert note == message
    else:
        assert note.endswith(" ...") and message.startswith(note.removesuffix(" ..."))
        assert 1020 < len(note.encode()) <= 1024


def test_series_is_written_when_it_starts_and_when_it_has_ended() -> None:
    async def work(rig: Recording) -> None:
        for _ in range(5):
            rig.fail(pending())
            await asyncio.sleep(10)
        await asyncio.sleep(3 * SERIES_GAP)
        assert rig.counts == [(0.0, 0), (10.0, 2), (2 * SERIES_GAP, 5)]
        rig.fail(pending())
        assert rig.counts[-1] == (50 + 3 * SERIES_GAP, 0)

    recording(work)


def test_count_of_a_series_that_goes_on_is_written_every_half_hour() -> None:
    async def work(rig: Recording) -> None:
        for _ in range(31):
            rig.fail(pending())
            await asyncio.sleep(120)
        assert rig.counts == [(0.0, 0), (120.0, 2), (REFRESH_INTERVAL, 15), (2 * REFRESH_INTERVAL, 30)]

    recording(work)


def test_pod_that_was_changed_starts_another_series() -> None:
    async def work(rig: Recording) -> None:
        for version, note in (("7", "a"), ("8", "b"), ("8", "c"), ("8", "d")):
            rig.fail(pending(version=version), note)
        assert [(event.note, event.series is not None) for _, event in rig.written] == [
            ("a", False),
            ("b", False),
            ("b", True),
        ]

    recording(work)


def test_pods_that_do_not_wait_are_forgotten() -> None:
    async def work(rig: Recording) -> None:
        for number in range(100):
            rig.fail(pending(str(number)))
        await asyncio.sleep(2 * SERIES_GAP + 1)
        assert len(rig.recorder._aggregator) == 0

    recording(work)


def test_series_keeps_no_run_alive() -> None:
    """A pod that is tried again and again has a series; when only its end is still to be written, the run is over."""

    def filter(state: CycleState, pod: PendingPod, node: NodeInfo) -> Status:
        return error("no") if asyncio.get_running_loop().time() < 20 else unschedulable("no")

    result = scenario(plugin("A", filter=filter), pods=("pod",)).run()
    first, second = result.events
    assert first.series is None, "then the pod was changed: it got its condition"
    assert second.series is not None and second.series.count == 2, "not yet as many as came"
    assert len(result.decisions_on("pod")) > 4
    assert 20 < result.seconds < 40


def test_pod_with_a_node_leaves_no_memory() -> None:
    """The series of what kept it waiting are written a last time: at once, not after six minutes."""

    async def main() -> None:
        written: list[tuple[str, str, int]] = []

        def write(record: EventRecord) -> None:
            written.append((record.series_key.pod.name, record.series_key.reason, record.count))

        recorder = EventRecorder(LoopClock(asyncio.get_running_loop()), write, lambda events: None)
        for name, reason in [("a", "FailedScheduling")] * 3 + [("b", "FailedScheduling"), ("a", "Scheduled")]:
            of_pod = PendingPod(make_pod(name), TemplateInterner())
            recorder.record(PodEvent("default-scheduler", of_pod, reason, "Binding", "note"))
        failed, scheduled = "FailedScheduling", "Scheduled"
        assert written[-3:] == [("b", failed, 1), ("a", failed, 3), ("a", scheduled, 1)]
        assert len(recorder._aggregator) == 1

    run_virtual(main)
