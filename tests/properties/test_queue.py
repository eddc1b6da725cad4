"""The queue does what a slow and obvious one does, whatever happens; planted faults do not pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.heap import Heap
from kframework.core.queue.pod_updates import pod_update_events
from kframework.core.queue.pool import HeldPods, InFlightPods, PluginKey
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.framework.events import ObservedEvent
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.feature_gates import MINORS
from tests.core.queue.rig import ANYTHING, NODE_ADD, NODE_TAINT, POD_GONE, REGISTERED, START, Rig, pending
from tests.properties.queue_model import ModelPod, QueueModel
from tests.properties.state_machine import fails

NAMES = [f"pod-{number}" for number in range(5)]

names = st.sampled_from(NAMES)
priorities = st.integers(0, 2)
plugins = st.sampled_from(sorted(REGISTERED))
rejections = st.tuples(st.sets(plugins, max_size=2), st.sets(plugins, max_size=1))
events = st.sampled_from([NODE_ADD, NODE_TAINT, POD_GONE, ANYTHING])
quarters = st.integers(0, 3).map(lambda count: count / 4)
pauses = st.sampled_from([0.25, 0.5, 0.75, 1.0, 2.0, 5.25, 11.0, 30.0, 301.5])
picks = st.integers(0, len(NAMES) - 1)


class QueueMachine(RuleBasedStateMachine):
    """A queue and its model, with the same calls; each popped pod has one `done`, that of `put_back` or its own."""

    @initialize(
        fraction=quarters,
        backoff=st.sampled_from([Backoff(), Backoff(3, 100), Backoff(1, 0)]),
        max_unschedulable=st.sampled_from([300.0, 30.0, 5.0]),
        crowd=st.lists(priorities, min_size=2, max_size=len(NAMES)),
        minor=st.sampled_from(MINORS),
    )
    def start(self, fraction: float, backoff: Backoff, max_unschedulable: float, crowd: list[int], minor: str) -> None:
        self.rig = Rig(start=START + fraction, backoff=backoff, max_unschedulable=max_unschedulable, minor=minor)
        self.model = QueueModel(START + fraction, backoff, max_unschedulable, minor)
        self.model.gates = self.rig.gates
        #: What the cluster last said of each pod that exists.
        self.said: dict[str, PendingPod] = {}
        for name, priority in zip(NAMES, crowd, strict=False):
            self.add(name, priority)

    @rule(name=names, priority=priorities)
    def add(self, name: str, priority: int) -> None:
        if name not in self.model.pods:
            self.said[name] = pending(name, priority=priority)
            self.rig.queue.add(self.said[name])
            self.model.add(name, priority)

    @rule(name=names, label=st.sampled_from(["", "web"]), tolerations=st.integers(0, 1))
    def update(self, name: str, label: str, tolerations: int) -> None:
        """An update of a pod that is being bound goes past the queue."""
        if name in self.said:
            old = self.said[name]
            new = pending(name, priority=old.priority, label=label, tolerations=tolerations)
            self.said[name] = new
            events = [*pod_update_events(old, new)]
            if self.rig.queue.get(new.uid) is not None:
                self.rig.queue.update(new, events)
            elif new.uid in self.rig.queue.in_flight:
                for event in events:
                    self.rig.queue.in_flight.add(event)
            self.model.update(name, [event.label for event in events])

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.rig.queue.delete(pending(name).uid)
        self.said.pop(name, None)
        if name in self.model.pods and name not in self.rig.popped:
            del self.model.pods[name]

    @rule(name=names, plugin=st.none() | plugins)
    def gate(self, name: str, plugin: str | None) -> None:
        self.rig.gates.pop(name, None)
        if plugin is not None:
            self.rig.gates[name] = plugin

    @rule()
    def pop(self) -> None:
        turns = [pod.name for pod in self.model.next_pods()]
        first, name = self.rig.queue.peek(), self.rig.pop()
        assert (name in turns) if turns else (name is None)
        assert name == (None if first is None else first.pod.name)
        if name is not None:
            self.model.popped(name)

    @rule(attempts=st.lists(st.tuples(events, rejections), min_size=2, max_size=4))
    def attempt(self, attempts: list[tuple[ObservedEvent, tuple[set[str], set[str]]]]) -> None:
        """Some pods are tried side by side, and none is placed."""
        for event, _ in attempts:
            self.pop()
            self.happen(event, 9)
        for pick, (_, rejection) in enumerate(attempts):
            if self.rig.popped:
                self.put_back(pick, rejection)

    @precondition(lambda self: self.rig.popped)
    @rule(pick=picks, rejection=rejections)
    def put_back(self, pick: int, rejection: tuple[set[str], set[str]]) -> None:
        """The attempt, or the binding, failed; a pod that exists no more is let go."""
        name = self.pick(pick)
        if name not in self.said:
            self.let_go(pick)
            return
        self.rig.popped[name].pod = self.said[name]
        rejectors, waited_for = rejection
        self.rig.put_back(name, *sorted(rejectors), pending=tuple(sorted(waited_for)))
        self.model.put_back(name, rejectors, waited_for)

    @precondition(lambda self: self.rig.popped)
    @rule(pick=picks)
    def bind(self, pick: int) -> None:
        """The binding began: the pod is in flight no longer, but may come back."""
        name = self.pick(pick)
        assert self.rig.queue.done(pending(name).uid) == (("pod", name) in self.model.flight)
        self.model.done(name)
        self.model.pods[name].place = "binding"

    @precondition(lambda self: self.rig.popped)
    @rule(pick=picks)
    def let_go(self, pick: int) -> None:
        """The pod is bound, or deleted."""
        name = self.pick(pick)
        del self.rig.popped[name], self.model.pods[name]
        self.said.pop(name, None)
        self.rig.queue.done(pending(name).uid)
        self.model.done(name)

    def pick(self, number: int) -> str:
        popped = sorted(self.rig.popped)
        return popped[number % len(popped)]

    @rule(event=events, priority=st.sampled_from([0, 1, 9]))
    def happen(self, event: ObservedEvent, priority: int) -> None:
        self.rig.queue.move_on_event(event, None if priority == 9 else lambda pod: pod.priority <= priority)
        self.model.move(event.label, lambda pod: pod.priority <= priority)

    @rule(name=names)
    def activate(self, name: str) -> None:
        self.rig.queue.activate(pending(name).uid)
        self.model.activate(name)

    @rule(seconds=pauses)
    def sleep(self, seconds: float) -> None:
        """The queue does something at its deadlines and at no other time, as one that is polled every second."""
        moments = []
        end = self.rig.now + seconds
        while (deadline := self.rig.deadline) is not None and deadline <= end:
            assert deadline > self.rig.now
            self.rig.now, before = deadline, self.places()
            self.rig.queue.tick()
            if self.places() != before:  # a flushed pod may be gated again
                moments.append((deadline, self.places()))
        self.rig.now = end
        assert moments == self.model.sleep(seconds)

    @rule(times=st.integers(0, 10))
    def sleep_until_a_flush(self, times: int) -> None:
        self.sleep(30 - (self.rig.now - self.model.born) % 30 + 30 * times)

    @precondition(lambda self: not self.model.flight)
    @rule(seconds=pauses)
    def oversleep(self, seconds: float) -> None:
        """A queue that is late catches up; only under which label, and when it flushes again, is its own affair."""
        self.model.sleep(seconds)
        self.rig.now += seconds
        self.rig.queue.tick()
        self.model.incoming = self.rig.queue.incoming.copy()
        for queued in self.rig.queue:
            pod = self.model.pods[queued.pod.name]
            pod.first, pod.flushed_at = queued.initial_attempt, queued.flushed_at

    def places(self) -> dict[str, str]:
        binding = {name: "binding" for name, pod in self.model.pods.items() if pod.place == "binding"}
        return {**self.rig.places(), **binding}

    @invariant()
    def every_pod_is_in_its_one_place(self) -> None:
        assert self.places() == self.model.places()

    @invariant()
    def the_history_of_every_pod_is_right(self) -> None:
        for queued in self.rig.queue:
            assert queued.pod is self.said[queued.pod.name]
            assert history(queued) == model_history(self.model.pods[queued.pod.name])

    @invariant()
    def events_are_kept_only_while_somebody_may_hear_of_them(self) -> None:
        in_flight = self.rig.queue.in_flight
        pods = [name for kind, name in self.model.flight if kind == "pod"]
        assert [pending(name).uid in in_flight for name in pods] == [True] * len(pods) == [True] * len(in_flight)
        assert in_flight.events == len(self.model.flight) - len(pods)

    @invariant()
    def moves_are_counted(self) -> None:
        assert +self.rig.queue.incoming == +self.model.incoming

    @invariant()
    def nothing_is_overdue(self) -> None:
        assert self.rig.deadline is None or self.rig.deadline > self.rig.now

    def teardown(self) -> None:
        """In the end every pod gets its turn, once, and in order."""
        self.rig.gates.clear()
        while self.model.next_pods():
            self.pop()
        assert self.rig.pop() is None
        while self.rig.popped:
            self.let_go(0)
        self.every_pod_is_in_its_one_place()
        assert (len(self.rig.queue.in_flight), self.rig.queue.in_flight.events) == (0, 0)


def history(queued: QueuedPod) -> tuple[object, ...]:
    """Tell what the queue knows of a pod."""
    counts = (queued.attempts, queued.unschedulable_count, queued.consecutive_errors)
    plugins = (queued.rejectors, queued.pending_plugins, queued.gating_plugin)
    return (*counts, queued.timestamp, queued.initial_attempt, *plugins)


def model_history(pod: ModelPod) -> tuple[object, ...]:
    """Tell the same of the model's pod."""
    counts = (pod.attempts, pod.rejections, pod.errors)
    return (*counts, pod.timestamp, pod.first, pod.rejectors, pod.waited_for, pod.gate)


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=50)

# -- planted faults ------------------------------------------------------------------------------------------------


def rest_a_second_less(backoff: Backoff, queued: QueuedPod, now: float) -> bool:
    return backoff.expiry(queued) > math.floor(now)


def hear_everything(in_flight: InFlightPods, uid: str) -> list[ObservedEvent]:
    return [event for _, event in in_flight._events]


def keep_the_events(in_flight: InFlightPods, uid: str) -> bool:
    return in_flight.popped.pop(uid, None) is not None


def pop_after_errors_too(queue: SchedulingQueue) -> QueuedPod | None:
    heaps = (queue._active, queue._backing_off, queue._backing_off_after_error)
    return next((heap.pop() for heap in heaps if heap), None)


def stay_where_it_was(heap: Heap, uid: str) -> QueuedPod | None:
    return heap.get(uid)


def look_at_everybody(pool: HeldPods, holders: Collection[PluginKey]) -> list[QueuedPod]:
    return list(pool)


_held_by_any = HeldPods.held_by_any


def lose_the_index(pool: HeldPods, holders: Collection[PluginKey]) -> list[QueuedPod]:
    return _held_by_any(pool, dict.fromkeys(sorted(holders)[:1]))


def flush_a_little_early(queue: SchedulingQueue, queued: QueuedPod) -> float:
    return queue._created_at + math.ceil((queued.timestamp + queue._max_unschedulable - queue._created_at) / 30) * 30


def flush_gated_pods_by_age_alone(queue: SchedulingQueue, queued: QueuedPod) -> float:
    due = queued.timestamp + queue._max_unschedulable - queue._created_at
    return max(queue._created_at + (math.floor(due / 30) + 1) * 30, queue._now() + 1)


def wake_up_late(queue: SchedulingQueue) -> float | None:
    first = queue._backing_off.peek() or queue._backing_off_after_error.peek()
    return queue._backoff.expiry(first) + 1 if first is not None else None


@pytest.mark.long
@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (Backoff, "is_backing_off", rest_a_second_less),
        (InFlightPods, "events_since_pop", hear_everything),
        (InFlightPods, "done", keep_the_events),
        (SchedulingQueue, "_pop_queued", pop_after_errors_too),
        (Heap, "remove", stay_where_it_was),
        (HeldPods, "held_by_any", look_at_everybody),
        (HeldPods, "held_by_any", lose_the_index),
        (SchedulingQueue, "flush_time", flush_a_little_early),
        (SchedulingQueue, "flush_time", flush_gated_pods_by_age_alone),
        (SchedulingQueue, "retry_deadline", property(wake_up_late)),
    ],
    ids=lambda value: getattr(value, "__name__", None) if callable(value) else None,
)
def test_planted_fault_is_detected(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, fault: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, name, fault)
    assert fails(QueueMachine)
