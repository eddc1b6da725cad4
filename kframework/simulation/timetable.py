"""What annotations of the objects of a simulation schedule: arrivals, and failures of nodes and their repairs."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended
from kframework.clock import Clock
from kframework.errors import InputError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key, MemoryController, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.pod_garbage_collector import OUT_OF_SERVICE, fail_and_delete
from kframework.in_memory.recreation import Recreation
from kframework.objects import ApiObject, Node, NodeCondition, Pod, PodCondition, Taint
from kframework.objects.kinds import reference
from kframework.objects.taints import first_untolerated
from kframework.simulation.controllers import Controller
from kframework.simulation.running import Action, Script, TimedAction

#: The annotation of an object with the second at which it is created; the others are there at the start.
ARRIVES_SECONDS = "kframework.dev/arrives-seconds"
#: The annotation of a node with the seconds between which it is down, such as `600-1200,9000-`.
DOWN_SECONDS = "kframework.dev/down-seconds"

#: The taint by which the operator of a cluster says that a node is dead and its pods are lost.
_TAINT = Taint(key=OUT_OF_SERVICE, value="nodeshutdown", effect="NoExecute")
#: As kube-controller-manager's taint manager sets it.
_DISRUPTION = PodCondition(
    type="DisruptionTarget",
    status="True",
    reason="DeletionByTaintManager",
    message="Taint manager: deleting due to NoExecute taint",
)
_NUMBER = r"\d+(?:\.\d*)?"
_PERIOD = re.compile(rf" *({_NUMBER})-({_NUMBER})? *")

_log = logging.getLogger(__name__)


class NodeChange(NamedTuple):
    """When a node goes down, or comes back."""

    seconds: float
    node: str
    is_down: bool


class Timetable(NamedTuple):
    """The objects that are there at the start, actions at their times, and the pods that are created again if lost."""

    initial: Sequence[ApiObject]
    actions: Sequence[TimedAction]
    failures: Sequence[NodeChange]
    pods: Collection[Key]

    def create_controllers(self, cluster: MemoryCluster, clock: Clock) -> list[Controller]:
        """Create the controllers that carry it out; none if nothing is scheduled."""
        controllers, actions = list[Controller](), [*self.actions]
        if self.failures:
            failures = NodeFailures(cluster)
            actions += [(each.seconds, partial(failures.apply, each)) for each in self.failures]
            controllers.append(failures)
        if self.pods:
            controllers.append(Recreation(cluster, lambda pod: key_of(pod) in self.pods))
        return [*controllers, Script(cluster, clock, actions)] if actions else controllers


def read_timetable(objects: Iterable[ApiObject]) -> Timetable:
    """Read the annotations of the objects; InputError for an invalid time."""
    initial, actions = list[ApiObject](), list[TimedAction]()
    failures, pods = list[NodeChange](), set[Key]()
    for subject in objects:
        annotations = subject.metadata.annotations
        seconds = 0.0
        if ARRIVES_SECONDS in annotations:
            seconds = _read_arrival(subject)
            if isinstance(subject, Pod) and not subject.spec.node_name:
                pods.add((subject.metadata.namespace or "default", subject.metadata.name))
        if isinstance(subject, Node) and DOWN_SECONDS in annotations:
            failures += _read_failures(subject)
        if seconds:
            actions.append((seconds, _creation(subject)))
        else:
            initial.append(subject)
    return Timetable(initial, actions, failures, pods)


def _read_arrival(subject: ApiObject) -> float:
    text = subject.metadata.annotations[ARRIVES_SECONDS]
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise InputError(f"{ARRIVES_SECONDS} is {text!r}, not a number of seconds", subject=reference(subject))
    return seconds


def _read_failures(node: Node) -> list[NodeChange]:
    """Return when a node goes down and comes back."""
    text, name = node.metadata.annotations[DOWN_SECONDS], node.metadata.name
    periods = [_PERIOD.fullmatch(each) for each in text.split(",")]
    times = [float(each or "inf") for period in periods if period is not None for each in period.groups()]
    if not all(periods) or not all(earlier <= later for earlier, later in pairwise(times)):
        message = f"{DOWN_SECONDS} is {text!r}: write periods in ascending order, such as 600-1200,9000-"
        raise InputError(message, subject=reference(node))
    return [NodeChange(seconds, name, index % 2 == 0) for index, seconds in enumerate(times) if seconds < math.inf]


def _creation(subject: ApiObject) -> Action:
    return lambda cluster: cluster.add(subject)


class NodeFailures(MemoryController):
    """Taints nodes that are down as out of service, and deletes the pods there that do not tolerate it."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (Pod,)

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self._down: set[str] = set()
        self._changed: dict[str, None] = {}  # nodes that are down and have pods to delete

    @property
    def idle(self) -> bool:
        return not self._changed

    def apply(self, change: NodeChange, cluster: MemoryCluster) -> None:
        """Take a node down, or repair it; a node that does not exist stays so."""
        name, is_down = change.node, change.is_down
        node = cluster.find(Node, name)
        if node is None:
            return
        (self._down.add if is_down else self._down.discard)(name)
        taints = tuple(each for each in node.spec.taints if each.key != OUT_OF_SERVICE)
        ready = NodeCondition(
            type="Ready", status="Unknown" if is_down else "True", last_transition_time=cluster.timestamp()
        )
        conditions = (*(each for each in node.status.conditions if each.type != "Ready"), ready)
        spec = replace(node.spec, taints=(*taints, _TAINT) if is_down else taints)
        cluster.replace(replace(node, spec=spec, status=replace(node.status, conditions=conditions)))
        if is_down:
            self._mark_changed(name)

    def _mark_changed(self, name: str) -> None:
        self._changed[name] = None
        self._wake.set()

    def _receive(self, change: Change) -> None:
        pod = change.new
        if isinstance(pod, Pod) and pod.spec.node_name in self._down and not has_ended(pod):
            self._mark_changed(pod.spec.node_name)  # bound by a cycle that began before the failure

    def _work(self) -> None:
        lost: dict[str, list[Pod]] = {name: [] for name in self._changed}
        self._changed.clear()
        for pod in self._cluster.objects(Pod):
            if pod.spec.node_name in lost and not has_ended(pod) and _is_evicted(pod):
                lost[pod.spec.node_name].append(pod)
        for name, pods in lost.items():
            _log.info("node %s is down: %d pods lost", name, len(pods))
            for pod in pods:
                fail_and_delete(self._cluster, pod, _DISRUPTION)


def _is_evicted(pod: Pod) -> bool:
    return first_untolerated([_TAINT], pod.spec.tolerations, _TAINT.effect) is not None
