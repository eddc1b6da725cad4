"""A simple, slow model of the scheduling queue: one dict of pods, one list of those in flight, a poll per second."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kframework.core.queue.backoff import Backoff

__all__ = ["ModelPod", "QueueModel"]

#: By which events, told by their labels, the plugins of the tests are woken; `*` is every event.
WAKES = {
    "Fit": {"NodeAdd", "AssignedPodDelete"},
    "Taints": {"NodeUpdateNodeTaint", "TargetPodUpdatePodToleration"},
    "Labels": {"TargetPodUpdatePodLabel"},
    "Everything": {"*"},
    "Deaf": set[str](),
}
WILDCARDS = {"*All", "UnschedulableTimeout", "ForceActivate"}
QUEUED = ("active", "backoff", "error backoff", "unschedulable", "gated")


def wakes(plugin: str, label: str) -> bool:
    """Return whether the plugin registered the event."""
    return bool(WAKES[plugin] & {label, "*"})


@dataclass
class ModelPod:
    """A pod that is queued or popped."""

    name: str
    priority: int
    timestamp: float
    flushed_at: float = 0.0
    place: str = ""
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    first: float | None = None
    rejectors: set[str] = field(default_factory=set)
    waited_for: set[str] = field(default_factory=set)
    gate: str = ""


class QueueModel:
    """What kube-scheduler's queue does, by the text of the reference."""

    def __init__(self, now: float, backoff: Backoff, max_unschedulable: float, minor: str) -> None:
        self.now = now
        #: Where wildcard events, the flush among them, look for pods.
        self.flushed = ("unschedulable",) if minor == "1.36" else ("gated", "unschedulable")
        self.born = now
        self.backoff = backoff
        self.max_unschedulable = max_unschedulable
        self.pods: dict[str, ModelPod] = {}
        #: ("pod", name) of each pop and (label, subject) of each event, as they came.
        self.flight: list[tuple[str, str]] = []
        self.gates: dict[str, str] = {}
        self.incoming: Counter[tuple[str, str]] = Counter()

    def at(self, *places: str) -> list[ModelPod]:
        """List the pods at these places."""
        return [pod for pod in self.pods.values() if pod.place in places]

    def add(self, name: str, priority: int) -> None:
        self.pods[name] = ModelPod(name, priority, self.now)
        self.enter(self.pods[name], "active", "UnscheduledPodAdd")

    def next_pods(self) -> list[ModelPod]:
        """List the pods that may be popped next: equals in any order."""
        active = self.at("active")
        turns: dict[str, tuple[float, ...]] = {pod.name: (-pod.priority, pod.timestamp) for pod in active}
        if not active:
            active = self.at("backoff")
            turns = {pod.name: (self.expiry(pod), -pod.priority, pod.timestamp) for pod in active}
        return [pod for pod in active if turns[pod.name] == min(turns.values())]

    def popped(self, name: str) -> None:
        pod = self.pods[name]
        if pod.place == "backoff":
            self.incoming["active", "PopFromBackoffQ"] += 1
        pod.place = "in flight"
        pod.attempts += 1
        self.flight.append(("pod", name))

    def put_back(self, name: str, rejectors: set[str], waited_for: set[str]) -> None:
        pod = self.pods[name]
        pod.rejectors, pod.waited_for = rejectors | waited_for, waited_for
        if pod.rejectors:
            pod.rejections, pod.errors = pod.rejections + 1, 0
        else:
            pod.errors += 1
        pod.timestamp = self.now
        verdict = "later"
        if pod.rejectors and ("pod", name) in self.flight:
            since = self.flight[self.flight.index(("pod", name)) + 1 :]
            verdicts = [self.verdict(pod, label, subject) for label, subject in since if label != "pod"]
            verdict = "now" if "now" in verdicts else "later" if "later" in verdicts else ""
        if verdict:
            self.requeue(pod, verdict, "ScheduleAttemptFailure")
        else:
            pod.place = "unschedulable"
            self.incoming["unschedulable", "ScheduleAttemptFailure"] += 1
        self.done(name)

    def done(self, name: str) -> None:
        if ("pod", name) in self.flight:
            self.flight.remove(("pod", name))
        while self.flight and self.flight[0][0] != "pod":
            self.flight.pop(0)

    def verdict(self, pod: ModelPod, label: str, subject: str) -> str:
        """Say what an event, maybe about one pod only, means to a pod: nothing, `later` or `now`."""
        if subject and subject != pod.name:
            return ""
        if label in WILDCARDS:
            return "later"
        if any(wakes(plugin, label) for plugin in pod.waited_for):
            return "now"
        return "later" if any(wakes(plugin, label) for plugin in pod.rejectors) else ""

    def move(self, label: str, meant: Callable[[ModelPod], bool]) -> None:
        for pod in self.at("unschedulable", "gated"):
            is_flushed = label in WILDCARDS and pod.place in self.flushed
            if meant(pod) and (pod.place != "gated" or is_flushed or wakes(pod.gate, label)):
                self.consider(pod, label)
        self.on_event(label)

    def consider(self, pod: ModelPod, label: str) -> None:
        verdict = self.verdict(pod, label, "")
        if verdict:
            self.requeue(pod, verdict, label)

    def on_event(self, label: str, subject: str = "") -> None:
        if self.flight:
            self.flight.append((label, subject))

    def update(self, name: str, labels: list[str]) -> None:
        pod = self.pods[name]
        for label in labels:
            if ("pod", name) in self.flight:
                self.on_event(label, name)
            elif pod.place in ("unschedulable", "gated"):
                before = self.incoming.total()
                self.consider(pod, label)
                if self.incoming.total() > before:
                    break

    def activate(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is not None and pod.place in QUEUED[1:]:
            self.enter(pod, "active", "ForceActivate")
        elif ("pod", name) in self.flight:
            self.on_event("ForceActivate", name)

    def requeue(self, pod: ModelPod, verdict: str, label: str) -> None:
        if verdict == "now" or not self.rests(pod):
            self.enter(pod, "active", label)
        else:
            self.enter(pod, "backoff" if pod.rejectors else "error backoff", label)

    def enter(self, pod: ModelPod, place: str, label: str) -> None:
        pod.gate = self.gates.get(pod.name, "")
        if pod.gate:
            pod.rejectors = pod.rejectors | {pod.gate}
            if pod.place not in ("unschedulable", "gated"):
                self.incoming["unschedulable", label] += 1
            pod.place = "gated"
        else:
            self.go(pod, place, label)

    def go(self, pod: ModelPod, place: str, label: str) -> None:
        pod.place = place
        self.incoming[place.removeprefix("error "), label] += 1
        if place == "active" and pod.first is None:
            pod.first = self.now

    def expiry(self, pod: ModelPod) -> float:
        duration = self.backoff.initial
        for _ in range((pod.errors or pod.rejections) - 1):
            duration = min(2 * duration, self.backoff.maximum)
        return math.floor(pod.timestamp + duration)

    def rests(self, pod: ModelPod) -> bool:
        failed = pod.errors or pod.rejections
        return bool(failed and self.backoff.maximum) and self.expiry(pod) >= math.floor(self.now)

    def sleep(self, seconds: float) -> list[tuple[float, dict[str, str]]]:
        """Let time go by; tell the moments at which a pod went elsewhere, and where all were then."""
        end = self.now + seconds
        polls = set(range(math.floor(self.now) + 1, math.floor(end) + 1))
        flushes = {self.born + 30 * n for n in range(int((end - self.born) // 30) + 1)}
        moments = []
        for moment in sorted(polls | {flush for flush in flushes if self.now < flush}):
            self.now = moment
            before = self.places()
            if moment in polls:
                self.end_rests()
            if moment in flushes:
                self.flush()
            if self.places() != before:
                moments.append((moment, self.places()))
        self.now = end
        return moments

    def end_rests(self) -> None:
        for pod in self.at("backoff", "error backoff"):
            if not self.rests(pod):
                self.go(pod, "active", "BackoffComplete")

    def flush(self) -> None:
        held = self.at(*self.flushed)
        overdue = [pod for pod in held if self.now - max(pod.timestamp, pod.flushed_at) > self.max_unschedulable]
        for pod in overdue:
            pod.flushed_at = self.now
            self.requeue(pod, "later", "UnschedulableTimeout")
        if overdue:
            self.on_event("UnschedulableTimeout")

    def places(self) -> dict[str, str]:
        """Tell where each pod is, as the counts of the queue call it."""
        return {pod.name: pod.place.removeprefix("error ") for pod in self.pods.values()}
