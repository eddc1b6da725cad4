"""Victims are evicted all but one at the same time, then that one; failures are reported."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import NamedTuple

import anyio
import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock, run_virtual
from kframework.core.cycle.results import Eviction
from kframework.core.host import PodEvent
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Pod
from kframework.scheduler.eviction import RETRY_DELAY, Disruptor, EvictionTask
from kframework.scheduler.outbox import Outbox
from kframework.state.inbox import LastVictimReached, Message, PreemptionEnded
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from kframework.state.waiting import ReservedPod, WaitingPods
from kframework.testing import make_pod

PREEMPTOR = make_pod("urgent", priority=10)
UID = PREEMPTOR.metadata.uid


@pytest.fixture(autouse=True)
def _standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every eviction take no time, so that messages are equal."""
    monkeypatch.setattr("kframework.scheduler.eviction.perf_counter_ns", lambda: 0)


#: Answers what befalls a call, by method and name of the pod.
Fate = Mapping[tuple[str, str], Fault]


class Ended(NamedTuple):
    """What became of an eviction: the calls in order with their times, the messages, the events, when it was over."""

    calls: list[tuple[float, str]]
    messages: list[Message]
    events: list[tuple[str, str]]
    seconds: float
    cluster: MemoryCluster


class _Eviction:
    """An eviction in a cluster where `a`, `b`, `c` run, and `low` is nominated to their node."""

    def __init__(self, victims: str, reserved: Iterable[ReservedPod], fate: Fate, lower_priority: bool) -> None:
        self._loop = asyncio.get_running_loop()
        pods = [make_pod(name, node_name="n", priority=1) for name in "abc"]
        low = make_pod("low", priority=5, nominated_node_name="n")
        self.cluster = MemoryCluster(LoopClock(self._loop), [*pods, low, PREEMPTOR])
        self.cluster.faults.append(self._call)
        self._fate = fate
        self.calls: list[tuple[float, str]] = []
        self.messages: list[Message] = []
        self.events: list[tuple[str, str]] = []
        waiting, interned = WaitingPods(), TemplateInterner()
        for each in reserved:
            waiting.add(each)
        self.eviction = Eviction(
            attempt=7,
            profile="default-scheduler",
            plugin="Default",
            preemptor=PendingPod(PREEMPTOR, interned),
            node_name="n",
            victims=tuple(PodInfo(self.cluster.read(Pod, name, "default"), interned) for name in victims),
            lower_priority=(PendingPod(self.cluster.read(Pod, "low", "default"), interned),) if lower_priority else (),
        )
        self._outbox = Outbox(self.cluster, LoopClock(self._loop), Random(0))
        disruptor = Disruptor(self.cluster, self._outbox)
        self._task = EvictionTask(self.eviction, disruptor, waiting, self.messages.append, self._record)

    def _call(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        self.calls.append((self._loop.time(), f"{method} {name}"))
        return self._fate.get((method, name))

    def _record(self, event: PodEvent) -> None:
        assert (event.profile, event.reason, event.action) == ("default-scheduler", "Preempted", "Preempting")
        assert event.related is self.eviction.preemptor
        self.events.append((event.pod.name, event.note))

    async def run(self) -> Ended:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._outbox.run)
            await self._task.run()
            tasks.cancel_scope.cancel()
        return Ended(self.calls, self.messages, self.events, self._loop.time(), self.cluster)


def evicted(
    victims: str = "abc",
    *,
    reserved: Iterable[ReservedPod] = (),
    fate: Fate = {},  # noqa: B006  # never changed
    lower_priority: bool = False,
    before: Callable[[MemoryCluster], object] = lambda cluster: None,
) -> Ended:
    async def main() -> Ended:
        eviction = _Eviction(victims, reserved, fate, lower_priority)
        before(eviction.cluster)
        return await eviction.run()

    return run_virtual(main)


def waiting_pod(name: str, **deadlines: float) -> ReservedPod:
    return ReservedPod(PendingPod(make_pod(name), TemplateInterner()), "n", dict(deadlines), 0.0)


def refused(status: int, delay: float = 0.0) -> Fault:
    return Fault(error=ClusterError(f"status {status}", status=status), delay=delay)


SLOW = Fault(delay=2.0)
NOTE = f"Preempted by pod {UID} on node n"
LAST = LastVictimReached(UID, 7, make_pod("c").metadata.uid)
COMPLETED = PreemptionEnded(UID, 7, failed=False)
FAILED = PreemptionEnded(UID, 7, failed=True)


def test_victims_but_the_last_are_evicted_together() -> None:
    ended = evicted(fate={("delete", name): SLOW for name in "abc"})
    assert [call for at, call in ended.calls if at == 0.0] == [
        "patch_pod_status a",
        "patch_pod_status b",
        "delete a",
        "delete b",
    ]
    assert [call for at, call in ended.calls if at == 2.0] == ["patch_pod_status c", "delete c"]
    assert ended.messages == [LAST, COMPLETED]
    assert ended.events == [("a", NOTE), ("b", NOTE), ("c", NOTE)]
    assert ended.seconds == 4.0


def test_victim_gets_the_reason_and_keeps_its_grace_period() -> None:
    victim = evicted("c").cluster.read(Pod, "c", "default")
    (condition,) = victim.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    assert victim.metadata.deletion_timestamp is not None
    assert victim.metadata.deletion_grace_period_seconds == 30
    assert condition.observed_generation == 1, "the generation in which it was chosen"
    assert PodInfo(victim, TemplateInterner()).disrupted


def test_victim_that_waits_for_permit_is_called_back() -> None:
    reserved = waiting_pod("b", Quota=99.0)
    ended = evicted("ab", reserved=[reserved])
    assert reserved.verdict is not None and reserved.verdict.message == "preempted"
    assert [call for _, call in ended.calls] == ["patch_pod_status a", "delete a"]
    assert ended.events == [("a", NOTE), ("b", f"{NOTE} (in kube-scheduler memory).")]


def test_victim_in_pre_bind_is_called_back() -> None:
    reserved, cancelled = waiting_pod("b"), list[str]()
    reserved.start_pre_bind(lambda: cancelled.append("b"))
    ended = evicted("b", reserved=[reserved])
    assert (cancelled, ended.calls) == (["b"], [])
    assert ended.events == [("b", f"{NOTE} (in kube-scheduler memory).")]


def test_victim_that_is_being_bound_is_deleted() -> None:
    ended = evicted("b", reserved=[waiting_pod("b")])
    assert [call for _, call in ended.calls] == ["patch_pod_status b", "delete b"]
    assert ended.events == [("b", NOTE)]


def test_victim_that_is_being_requeued_is_left_alone() -> None:
    reserved = waiting_pod("b", Quota=99.0)
    reserved.reject("Quota", "no")
    ended = evicted("b", reserved=[reserved])
    assert (ended.calls, ended.events, ended.messages[-1]) == ([], [], COMPLETED)


def test_waiting_victim_is_looked_up_when_its_turn_comes() -> None:
    """While others go, a victim that waited may have been let through."""
    reserved = waiting_pod("b", Quota=99.0)
    hesitating = {("delete", "a"): SLOW}
    ended = evicted(
        "ab", reserved=[reserved], fate=hesitating, before=lambda _: loop_at(1.0, lambda: reserved.allow("Quota"))
    )
    assert ended.events == [("a", NOTE), ("b", NOTE)]


def loop_at(seconds: float, happens: Callable[[], object]) -> None:
    asyncio.get_running_loop().call_later(seconds, happens)


def gone(cluster: MemoryCluster) -> None:
    for name in "abc":
        cluster.remove(Pod, name, "default", grace=0)


def others_of_that_name(cluster: MemoryCluster) -> None:
    gone(cluster)
    for name in "abc":
        other = make_pod(name, node_name="n")
        cluster.add(replace(other, metadata=replace(other.metadata, uid=f"other-{name}")))


@pytest.mark.parametrize("vanish", [gone, others_of_that_name])
def test_victim_that_has_vanished_is_no_failure_and_no_event(vanish: Callable[[MemoryCluster], None]) -> None:
    ended = evicted(before=vanish)
    assert ended.messages == [LAST, COMPLETED]
    assert ended.events == []
    assert all(pod.metadata.deletion_timestamp is None for pod in ended.cluster.objects(Pod))


@pytest.mark.parametrize("method", ["patch_pod_status", "delete"])
@pytest.mark.parametrize("status", [403, 409, 500, 0])
def test_failure_spares_the_last_victim(method: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ended = evicted(fate={(method, "a"): refused(status)})
    assert ended.messages == [FAILED]
    assert not [call for _, call in ended.calls if call.endswith("c")]
    assert caplog.messages[-1] == f"pod default/urgent cannot evict all its victims: status {status}"
    assert ended.seconds >= RETRY_DELAY


def test_failure_spares_those_whose_turn_is_not_over() -> None:
    ended = evicted(fate={("patch_pod_status", "a"): SLOW, ("delete", "b"): refused(403, delay=1.0)})
    assert ended.messages == [FAILED]
    assert (ended.seconds, ended.events) == (1.0 + RETRY_DELAY, [])
    assert ended.cluster.read(Pod, "a", "default").metadata.deletion_timestamp is None


def test_failure_of_the_last_is_a_failure() -> None:
    ended = evicted(fate={("delete", "c"): refused(403)})
    assert ended.messages == [LAST, FAILED]
    assert ended.events == [("a", NOTE), ("b", NOTE)]


def test_status_that_is_refused_for_a_moment_is_no_failure() -> None:
    flaky = iter([refused(500), refused(409)])

    def falter(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: next(flaky, None) if method == "patch_pod_status" else None)

    ended = evicted("c", before=falter)
    assert ended.messages == [LAST, COMPLETED]
    assert 0.06 <= ended.seconds <= 0.066


def test_lower_nominations_are_cleared_first() -> None:
    ended = evicted(lower_priority=True)
    assert [call for _, call in ended.calls][:2] == ["patch_pod_status low", "patch_pod_status a"]
    assert ended.cluster.read(Pod, "low", "default").status.nominated_node_name == ""
    assert ended.messages == [LAST, COMPLETED]


def test_nomination_that_cannot_be_cleared_is_a_failure_but_the_victims_go() -> None:
    ended = evicted(lower_priority=True, fate={("patch_pod_status", "low"): refused(403)})
    assert ended.messages == [LAST, FAILED]
    assert [name for name, _ in ended.events] == ["a", "b", "c"]


def test_eviction_that_is_cancelled_reports_nothing() -> None:
    async def main() -> list[Message]:
        eviction = _Eviction("abc", (), {("delete", "a"): SLOW}, lower_priority=True)
        running = asyncio.ensure_future(eviction.run())
        await asyncio.sleep(1.0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return eviction.messages

    assert run_virtual(main) == []
