"""The DaemonSet controller: a pod on each node that it fits, replaced node by node when the template changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import Clock
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    available_at,
    delete_pod,
    make_pod,
    makes_pods,
    mapping,
    pod_metadata,
    selector_of,
    touched_owners,
)
from kframework.in_memory.workloads.revisions import REVISION_LABEL, Revisions, hash_of, scaled
from kframework.objects import (
    ApiObject,
    ControllerRevision,
    DaemonSet,
    DaemonSetStatus,
    Node,
    Pod,
    RollingUpdate,
    convert,
    kind_of,
)
from kframework.objects.node_selectors import pinned_nodes, required_node_affinity
from kframework.objects.taints import first_untolerated

#: The backoff before a failed pod on a node is replaced, at first and at most, in seconds; it doubles.
_FIRST, _LONGEST = 1.0, 900.0


class _Place(NamedTuple):
    """A node with the pods of a daemon set on it, the oldest first."""

    name: str
    suits: Suitability
    pods: list[Pod]


class _Plan(NamedTuple):
    """Pods that are to go, and nodes that are to have a new one."""

    gone: list[Pod]
    wanted: list[str]


class _Set(NamedTuple):
    """A daemon set, the hash of its template, and where its pods are."""

    owner: DaemonSet
    name_hash: str
    places: list[_Place]
    now: float

    @property
    def desired(self) -> int:
        return sum(place.suits.wants for place in self.places)

    @property
    def bounds(self) -> tuple[int, int]:
        """How many pods more, and how many fewer, there may be; not both are 0."""
        rolling = self.owner.spec.update_strategy.rolling_update or RollingUpdate()
        surge = scaled(rolling.max_surge, self.desired, up=True)
        unavailable = scaled(1 if rolling.max_unavailable is None else rolling.max_unavailable, self.desired, up=True)
        return surge, (unavailable if surge or unavailable else 1)

    def is_new(self, pod: Pod) -> bool:
        """Return whether a pod has the template of today."""
        return pod.metadata.labels.get(REVISION_LABEL) == self.name_hash

    def is_available(self, pod: Pod) -> bool:
        return available_at(pod, self.owner.spec.min_ready_seconds) <= self.now and is_ready(pod)


class DaemonSetController(ControlLoop):
    """Creates and deletes the pods of daemon sets, node by node."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (DaemonSet, Node, Pod, ControllerRevision)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        self._owned_revisions: Dependents[ControllerRevision] = Dependents(cluster, ControllerRevision)
        self._revisions: Revisions[DaemonSet] = Revisions(cluster, self._owned_revisions)
        #: By daemon set and node, how long a pod that fails stays there, and since when.
        self._backoffs: dict[Key, dict[str, tuple[float, float]]] = {}

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case DaemonSet() as owner:
                yield key_of(owner)
            case Node(metadata=metadata, spec=spec):
                old = change.old if change.new is not None else None
                # Otherwise it suits the same pods as before.
                if not isinstance(old, Node) or (old.metadata.labels, old.spec) != (metadata.labels, spec):
                    yield from map(key_of, self._cluster.objects(DaemonSet))
            case ControllerRevision():
                self._owned_revisions.file(change)
                yield from touched_owners(change, "DaemonSet")
            case Pod():
                yield from self._pods.touched(change, DaemonSet)

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(DaemonSet, key[1], key[0])
        if owner is None:
            self._backoffs.pop(key, None)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return
        selector = selector_of(owner.spec.selector)
        if not makes_pods(owner, owner.spec.template, selector):
            return
        history = self._revisions.history(owner)
        claimed = self._pods.claimed(owner, selector, lambda pod: True)
        state = _Set(owner, hash_of(history.update), self._places(owner, claimed), self._clock.now())
        plan = self._kept(state)
        places = {place.name for place in state.places}
        plan.gone.extend(pod for pod in claimed if not pod.spec.node_name and node_of(pod) not in places)
        if plan == _Plan([], []) and owner.spec.update_strategy.type != "OnDelete":
            plan = _surged(state) if state.bounds[0] else _replaced(state)
        for pod in plan.gone:
            delete_pod(self._cluster, pod)
        template = owner.spec.template
        labels = template.metadata.labels | {REVISION_LABEL: state.name_hash}
        for node_name in plan.wanted:
            spec = pinned(with_tolerations(template.spec), node_name)
            make_pod(self._cluster, pod_metadata(owner, template, labels=labels), spec)
        hashes = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in claimed}
        alive = {each.metadata.name for each in history.every if hash_of(each) in hashes}
        self._revisions.forget_old(owner, history, alive)
        self._tell(state, history.collisions)

    def _places(self, owner: DaemonSet, claimed: list[Pod]) -> list[_Place]:
        ask = suitability(owner)
        pods: dict[str, list[Pod]] = {}
        for pod in sorted(claimed, key=_age):
            if not (has_ended(pod) and pod.metadata.deletion_timestamp is not None):
                pods.setdefault(node_of(pod), []).append(pod)
        return [
            _Place(node.metadata.name, ask(node), pods.get(node.metadata.name, []))
            for node in self._cluster.objects(Node)
        ]

    def _kept(self, state: _Set) -> _Plan:
        """Plan for each node to have one pod if it wants one, or two while one takes the place of the other."""
        plan = _Plan([], [])
        for place in state.places:
            staying = [pod for pod in place.pods if pod.metadata.deletion_timestamp is None]
            if place.suits.wants and not place.pods:
                plan.wanted.append(place.name)
            elif not place.suits.keeps:
                plan.gone.extend(staying)
            else:
                running = [pod for pod in staying if not has_ended(pod)]
                plan.gone.extend(pod for pod in staying if has_ended(pod) and self._may_go(state, pod, place.name))
                if not state.bounds[0]:
                    plan.gone.extend(running[1:])
                elif not running and place.suits.wants:
                    plan.wanted.append(place.name)
                else:
                    plan.gone.extend(_too_many(state, running))
        return plan

    def _may_go(self, state: _Set, pod: Pod, node_name: str) -> bool:
        """Return whether a pod that has ended may go: one that fails again and again stays longer each time."""
        if pod.status.phase != "Failed":
            return True
        key = key_of(state.owner)
        backoffs = self._backoffs.setdefault(key, {})
        delay, since = backoffs.get(node_name, (0.0, state.now))
        left = since + delay - state.now
        if left > 0:
            self._queue.add_after(key, left)
            return False
        delay = 0.0 if -left > _LONGEST else delay
        backoffs[node_name] = min(max(_FIRST, 2 * delay), _LONGEST), state.now
        return True

    def _tell(self, state: _Set, collisions: int) -> None:
        owner = state.owner
        there = [place.pods[0] for place in state.places if place.suits.wants and place.pods]
        available = sum(map(state.is_available, there))
        status = DaemonSetStatus(
            desired_number_scheduled=state.desired,
            current_number_scheduled=len(there),
            number_misscheduled=sum(bool(place.pods) and not place.suits.wants for place in state.places),
            number_ready=sum(map(is_ready, there)),
            updated_number_scheduled=sum(map(state.is_new, there)),
            number_available=available,
            number_unavailable=state.desired - available,
            observed_generation=owner.metadata.generation,
            collision_count=collisions or owner.status.collision_count,
            conditions=owner.status.conditions,
        )
        self._cluster.replace(replace(owner, status=status))
        ready = (pod for place in state.places for pod in place.pods if is_ready(pod))
        times = (available_at(pod, owner.spec.min_ready_seconds) for pod in ready)
        self._look_again(key_of(owner), times, state.now)


def _age(pod: Pod) -> tuple[bool, str, str]:
    """Sort pods: those on a node first, then the oldest."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name


def _too_many(state: _Set, running: list[Pod]) -> list[Pod]:
    """List the pods of a node that are too many where one may take the place of another before that goes."""
    new = [pod for pod in running if state.is_new(pod)]
    old = [pod for pod in running if not state.is_new(pod)]
    gone = new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or state.is_available(new[0])):
        gone.append(old[0])
    return gone


def _pair(state: _Set, place: _Place) -> tuple[Pod | None, Pod | None]:
    """Return the new pod and the old pod of a node that has at most one of each."""
    staying = [pod for pod in place.pods if pod.metadata.deletion_timestamp is None]
    new = next((pod for pod in staying if state.is_new(pod)), None)
    return new, next((pod for pod in staying if not state.is_new(pod)), None)


def _replaced(state: _Set) -> _Plan:
    """Plan which old pods go for new ones to come: those that are not available, and as many others as may be."""
    unavailable = 0
    gone: list[Pod] = []
    candidates: list[Pod] = []
    for place in state.places:
        if not place.suits.wants and not place.pods:
            continue
        new, old = _pair(state, place)
        if old is None:
            unavailable += new is None or not state.is_available(new)
        elif new is not None:
            unavailable += 1
        elif state.is_available(old):
            candidates.append(old)
        else:
            gone.append(old)
            unavailable += 1
    return _Plan(gone + candidates[: max(0, state.bounds[1] - unavailable)], [])


def _surged(state: _Set) -> _Plan:
    """Plan where new pods are created next to old ones, and which old ones are no longer needed."""
    surging = available = 0
    plan = _Plan([], [])
    candidates: list[str] = []
    unwanted: list[Pod] = []
    for place in state.places:
        new, old = _pair(state, place)
        kept = old or new
        available += kept is not None and state.is_available(kept)
        if old is None:
            continue
        if new is not None:
            if state.is_available(new):
                plan.gone.append(old)
            else:
                surging += 1
        elif not state.is_available(old):
            if place.suits.wants:
                plan.wanted.append(place.name)
            else:
                plan.gone.append(old)
        elif place.suits.wants:
            candidates.append(place.name)
        else:
            unwanted.append(old)
    plan.gone.extend(unwanted[: max(0, available - state.desired)])
    plan.wanted.extend(candidates[: max(0, state.bounds[0] - surging)])
    return plan


_NODE = "node.kubernetes.io"
#: Tolerations that daemon pods always have, in addition to their template's, and one more on the host's network.
_TOLERATIONS: tuple[dict[str, object], ...] = tuple(
    {"key": f"{_NODE}/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
_OF_HOST: dict[str, object] = {"key": f"{_NODE}/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}


class Suitability(NamedTuple):
    """The suitability of a node: whether it should run a pod, and whether an existing one may stay."""

    wants: bool
    keeps: bool


def suitability(owner: DaemonSet) -> Callable[[Node], Suitability]:
    """Compile whether nodes want a pod of a daemon set: by name, selector, affinity and taints."""
    spec = convert({"spec": with_tolerations(owner.spec.template.spec)}, kind_of(Pod)).spec
    fits = required_node_affinity(spec)

    def ask(node: Node) -> Suitability:
        labels, name = node.metadata.labels, node.metadata.name
        if spec.node_name not in ("", name) or (fits is not None and not fits(labels, name)):
            return Suitability(False, False)
        wants = first_untolerated(node.spec.taints, spec.tolerations, ("NoSchedule", "NoExecute")) is None
        return Suitability(wants, first_untolerated(node.spec.taints, spec.tolerations, ("NoExecute",)) is None)

    return ask


def with_tolerations(spec: Mapping[str, object]) -> dict[str, object]:
    """Return the spec of a pod with the tolerations of daemon pods."""
    given = spec.get("tolerations")
    added = (*_TOLERATIONS, _OF_HOST) if spec.get("hostNetwork") else _TOLERATIONS
    rest = [each for each in added if each not in given] if isinstance(given, list) else [*added]
    return {**spec, "tolerations": [*(given if isinstance(given, list) else ()), *rest]}


def pinned(spec: Mapping[str, object], node_name: str) -> dict[str, object]:
    """Return the spec of a pod that fits only the node of this name, replacing the template's required affinity."""
    affinity = mapping(spec, "affinity")
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {**mapping(affinity, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def node_of(pod: Pod) -> str:
    """Return the name of the node that a daemon pod is on or for; "" if there is none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    return next(iter(pinned_nodes(pod.spec) or ()), "")
