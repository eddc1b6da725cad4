"""The kubelets of a cluster in memory, all in one: pods run, end and are deleted as on real nodes, without processes.

It does not read nodes: a bound pod runs even if its node is unknown or not ready.
"""

from __future__ import annotations

import heapq
import logging
import math
import re
from collections.abc import Sequence
from itertools import groupby
from typing import ClassVar

from msgspec.structs import replace

from kframework.client.transitions import has_ended, with_condition
from kframework.clock import Clock, seconds_of
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import MemoryController, wait_until
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)
from kframework.objects.identity import cached_by_identity

#: The annotation with the seconds that a pod runs before it succeeds; it is read when the pod starts.
RUN_SECONDS = "kframework.dev/run-seconds"
#: The annotation with the seconds that a pod takes to end when it is deleted, at most those of its grace.
ENDING_SECONDS = "kframework.dev/ending-seconds"
#: The annotation with the exit code of a pod's containers after its run time: all but 0 makes it fail.
EXIT_CODE = "kframework.dev/exit-code"

_log = logging.getLogger(__name__)


class Kubelet(MemoryController):
    """Sets bound pods to Running, to Succeeded or Failed after their run time, and ends deletions after their grace.

    The run time of a pod that is already Running counts from its start time; one that is being deleted takes `ending`
    seconds, or those of its annotation, but not longer than its grace, as after a restart of a kubelet.
    """

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def __init__(self, cluster: MemoryCluster, clock: Clock, ending: float = math.inf) -> None:
        super().__init__(cluster)
        self._clock = clock
        self._ending = ending
        self._changed: dict[tuple[str, str], None] = {}  # namespace and name of pods that changed, in order
        self._tracked: set[str] = set()  # uids of the Running pods whose run time has been read
        self._end_times: dict[str, float] = {}  # uid -> when the pod ends
        self._heap: list[tuple[float, int, str, str, str]] = []  # end, serial, uid, namespace, name; some out of date
        self._serial = 0

    @property
    def due(self) -> float | None:
        """The time of the next action, in seconds since 1970; None if nothing is pending."""
        if self._changed:
            return self._clock.now()
        while self._heap and self._end_times.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    @property
    def idle(self) -> bool:
        return self.due is None

    @property
    def pending(self) -> int:
        """The number of pods with a scheduled end: after their run time or their grace period."""
        return len(self._end_times)

    async def _wait(self) -> None:
        await wait_until(self.due, self._wake, self._clock)

    def _receive(self, change: Change) -> None:
        pod = change.new
        if isinstance(pod, Pod):
            if pod.spec.node_name and not self._is_synced(pod):
                self._changed[pod.metadata.namespace, pod.metadata.name] = None
                self._wake.set()
        elif change.old is not None:
            self._forget_pod(change.old.metadata.uid)

    def _is_synced(self, pod: Pod) -> bool:
        """Return whether there is nothing to do for a pod until it changes."""
        metadata = pod.metadata
        is_running = pod.status.phase == "Running" and metadata.deletion_timestamp is None
        return is_running and metadata.uid in self._tracked

    def _forget_pod(self, uid: str) -> None:
        self._tracked.discard(uid)
        self._end_times.pop(uid, None)

    def _work(self) -> None:
        while (due := self.due) is not None and due <= self._clock.now():
            changed, self._changed = self._changed, {}
            current = (self._cluster.find(Pod, name, namespace) for namespace, name in changed)
            for is_starting, pods in groupby((pod for pod in current if pod is not None), _is_starting):
                if is_starting:
                    self._start(list(pods))
                else:
                    for pod in pods:
                        self._sync_pod(pod)
            while self._heap and self._heap[0][0] <= self._clock.now():
                end, _, uid, namespace, name = heapq.heappop(self._heap)
                if self._end_times.get(uid) == end:
                    del self._end_times[uid]
                    self._end_pod(self._cluster.read(Pod, name, namespace, uid=uid))

    def _start(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            self._track(pod, self._clock.now())
        now = self._cluster.timestamp()
        self._cluster.set_statuses((pod, _running_status(pod.status, now)) for pod in pods)

    def _sync_pod(self, pod: Pod) -> None:
        if has_ended(pod):
            self._forget_pod(pod.metadata.uid)
            if pod.metadata.deletion_timestamp is not None:
                self._end_pod(pod)
        elif pod.metadata.deletion_timestamp is not None:
            grace = pod.metadata.deletion_grace_period_seconds or 0
            self._schedule_end(pod, self._clock.now() + min(grace, _read_seconds(pod, ENDING_SECONDS, self._ending)))
        elif pod.metadata.uid not in self._tracked:
            started = seconds_of(pod.status.start_time) if pod.status.start_time else self._clock.now()
            self._track(pod, started)

    def _track(self, pod: Pod, started: float) -> None:
        self._tracked.add(pod.metadata.uid)
        self._schedule_end_of_run(pod, started)

    def _schedule_end_of_run(self, pod: Pod, started: float) -> None:
        if RUN_SECONDS in pod.metadata.annotations:
            self._schedule_end(pod, started + _read_seconds(pod, RUN_SECONDS, math.inf))

    def _schedule_end(self, pod: Pod, end: float) -> None:
        uid = pod.metadata.uid
        if end < self._end_times.get(uid, math.inf):
            self._end_times[uid] = end
            self._serial += 1
            heapq.heappush(self._heap, (end, self._serial, uid, pod.metadata.namespace, pod.metadata.name))

    def _end_pod(self, pod: Pod) -> None:
        metadata = pod.metadata
        if metadata.deletion_timestamp is not None:
            if metadata.finalizers and not has_ended(pod):  # its status will still be read
                self._cluster.set_status(pod, _failed_status(pod, _TERMINATED, self._cluster.timestamp()))
            self._cluster.remove_object(pod, grace=0)
        else:
            self._cluster.set_status(pod, ended_status(pod, self._cluster.timestamp()))


def _read_seconds(pod: Pod, annotation: str, default: float) -> float:
    """Read a time from an annotation; invalid text is logged and counts as absent."""
    text = pod.metadata.annotations.get(annotation)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if 0 <= seconds < math.inf:
        return seconds
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    _log.warning("pod %s: ignoring annotation %s: %r is not a number of seconds", key, annotation, text)
    return default


def ended_status(pod: Pod, now: str) -> PodStatus:
    """Return the status of a pod after its run time, by its exit code."""
    text = pod.metadata.annotations.get(EXIT_CODE, "0")
    code = int(text) if _CODE.fullmatch(text) else 0
    return _failed_status(pod, code, now) if code else _with_phase(pod.status, "Succeeded", _SUCCEEDED, now)


def _failed_status(pod: Pod, code: int, now: str) -> PodStatus:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=code))
    statuses = [ContainerStatus(name=each.name, image=each.image, state=state) for each in pod.spec.containers]
    return _with_phase(replace(pod.status, container_statuses=tuple(statuses)), "Failed", _FAILED, now)


#: The exit codes that a process can have, and the one after SIGTERM.
_CODE, _TERMINATED = re.compile("[0-9]{1,3}"), 143


def _is_starting(pod: Pod) -> bool:
    return pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None


@cached_by_identity
def _running_status(status: PodStatus, now: str) -> PodStatus:
    return _with_phase(replace(status, start_time=now), "Running", _RUNNING, now)


def _with_phase(status: PodStatus, phase: str, new_conditions: tuple[PodCondition, ...], now: str) -> PodStatus:
    conditions = status.conditions
    for condition in new_conditions:
        conditions = with_condition(conditions, condition, now)
    return replace(status, phase=phase, conditions=conditions)


_RUNNING = tuple(PodCondition(type=name, status="True") for name in ("Initialized", "Ready", "ContainersReady"))
_SUCCEEDED = (
    PodCondition(type="Initialized", status="True", reason="PodCompleted"),
    PodCondition(type="Ready", status="False", reason="PodCompleted"),
    PodCondition(type="ContainersReady", status="False", reason="PodCompleted"),
)
_FAILED = tuple(PodCondition(type=name, status="False", reason="PodFailed") for name in ("Ready", "ContainersReady"))
