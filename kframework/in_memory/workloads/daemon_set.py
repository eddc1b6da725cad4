"""The DaemonSet controller: a pod on each node that it fits, replaced node by node when the template changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from kframework.client.transitions import has_ended, is_ready
from kframework.clock import Clock
from kframework.in_memory.admission import template_generation
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import ControlLoop, Key, key_of
from kframework.in_memory.kind_store import Change
from kframework.in_memory.workloads.dependents import (
    Dependents,
    available_at,
    can_create_pods,
    create_pod,
    mapping,
    owner_keys,
)
from kframework.in_memory.workloads.revisions import REVISION_LABEL, Revisions, resolve_count, revision_hash
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
_INITIAL_BACKOFF, _MAX_BACKOFF = 1.0, 900.0


class _NodePods(NamedTuple):
    """A node, whether it should have a pod, whether an existing one may stay, and its pods, the oldest first."""

    name: str
    should_run: bool
    should_continue: bool
    pods: list[Pod]


class _Plan(NamedTuple):
    """The pods to delete, and the nodes on which to create one."""

    to_delete: list[Pod]
    to_create: list[str]


class _DaemonState(NamedTuple):
    """A daemon set, the hash of its template, and all nodes with its pods."""

    owner: DaemonSet
    name_hash: str
    nodes: list[_NodePods]
    now: float

    @property
    def desired_count(self) -> int:
        return sum(node.should_run for node in self.nodes)

    @property
    def rollout_limits(self) -> tuple[int, int]:
        """The maximum surge and the maximum number of unavailable pods; not both are 0."""
        rolling = self.owner.spec.update_strategy.rolling_update or RollingUpdate()
        surge = resolve_count(rolling.max_surge, self.desired_count, up=True)
        unavailable = resolve_count(
            1 if rolling.max_unavailable is None else rolling.max_unavailable, self.desired_count, up=True
        )
        return surge, (unavailable if surge or unavailable else 1)

    def is_new(self, pod: Pod) -> bool:
        return pod.metadata.labels.get(REVISION_LABEL) == self.name_hash

    def is_available(self, pod: Pod) -> bool:
        return available_at(pod, self.owner.spec.min_ready_seconds) <= self.now and is_ready(pod)


class DaemonSetController(ControlLoop):
    """Creates and deletes the pods of daemon sets, node by node."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (DaemonSet, Node, Pod, ControllerRevision)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        self._revisions: Revisions[DaemonSet] = Revisions(cluster)
        #: By daemon set and node, how long a pod that fails stays there, and since when.
        self._backoffs: dict[Key, dict[str, tuple[float, float]]] = {}

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case DaemonSet() as owner:
                yield key_of(owner)
            case Node(metadata=metadata, spec=spec):
                old = change.old if change.new is not None else None
                # Other changes do not affect which pods fit.
                if not isinstance(old, Node) or (old.metadata.labels, old.spec) != (metadata.labels, spec):
                    yield from map(key_of, self._cluster.objects(DaemonSet))
            case ControllerRevision():
                self._revisions.dependents.index(change)
                yield from owner_keys(change, "DaemonSet")
            case Pod():
                yield from self._pods.affected_keys(change, DaemonSet)

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(DaemonSet, key[1], key[0])
        if owner is None:
            self._backoffs.pop(key, None)
        if owner is None or owner.metadata.deletion_timestamp is not None or not can_create_pods(owner):
            return
        history = self._revisions.sync_history(owner)
        pods = self._pods.claim(owner)
        state = _DaemonState(
            owner, revision_hash(history.update), self._nodes_with_pods(owner, pods), self._clock.now()
        )
        plan = self._plan_nodes(state)
        nodes = {node.name for node in state.nodes}
        plan.to_delete.extend(pod for pod in pods if not pod.spec.node_name and target_node_name(pod) not in nodes)
        if plan == _Plan([], []) and owner.spec.update_strategy.type != "OnDelete":
            plan = _plan_surge(state) if state.rollout_limits[0] else _plan_replacement(state)
        for pod in plan.to_delete:
            self._cluster.remove_object(pod)
        template = owner.spec.template
        labels = template.metadata.labels | {REVISION_LABEL: state.name_hash}
        labels["pod-template-generation"] = str(template_generation(owner))
        for node_name in plan.to_create:
            spec = pin_to_node(with_daemon_tolerations(template.spec), node_name)
            create_pod(self._cluster, owner, template, spec, labels=labels)
        hashes = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods}
        alive = {each.metadata.name for each in history.revisions if revision_hash(each) in hashes}
        self._revisions.clean_up(owner, history, alive)
        self._update_status(state, history.collisions)

    def _nodes_with_pods(self, owner: DaemonSet, pods: list[Pod]) -> list[_NodePods]:
        evaluate = compile_suitability(owner)
        by_node: dict[str, list[Pod]] = {}
        for pod in sorted(pods, key=_age_key):
            if not (has_ended(pod) and pod.metadata.deletion_timestamp is not None):
                by_node.setdefault(target_node_name(pod), []).append(pod)
        names = [(node, node.metadata.name) for node in self._cluster.objects(Node)]
        return [_NodePods(name, *evaluate(node), by_node.get(name, [])) for node, name in names]

    def _plan_nodes(self, state: _DaemonState) -> _Plan:
        """Plan one pod for each node that should run one; during a surge, a new and an old one."""
        plan = _Plan([], [])
        for node in state.nodes:
            staying = [pod for pod in node.pods if pod.metadata.deletion_timestamp is None]
            if node.should_run and not node.pods:
                plan.to_create.append(node.name)
            elif not node.should_continue:
                plan.to_delete.extend(staying)
            else:
                running = [pod for pod in staying if not has_ended(pod)]
                ended = [pod for pod in staying if has_ended(pod)]
                plan.to_delete.extend(pod for pod in ended if self._is_backoff_over(state, pod, node.name))
                if not state.rollout_limits[0]:
                    plan.to_delete.extend(running[1:])
                elif not running and node.should_run:
                    plan.to_create.append(node.name)
                else:
                    plan.to_delete.extend(_surplus_pods(state, running))
        return plan

    def _is_backoff_over(self, state: _DaemonState, pod: Pod, node_name: str) -> bool:
        """Return whether an ended pod may be deleted: a failed one only after a backoff, which doubles each time."""
        if pod.status.phase != "Failed":
            return True
        key = key_of(state.owner)
        backoffs = self._backoffs.setdefault(key, {})
        delay, since = backoffs.get(node_name, (0.0, state.now))
        left = since + delay - state.now
        if left > 0:
            self._queue.add_after(key, left)
            return False
        delay = 0.0 if -left > _MAX_BACKOFF else delay
        backoffs[node_name] = min(max(_INITIAL_BACKOFF, 2 * delay), _MAX_BACKOFF), state.now
        return True

    def _update_status(self, state: _DaemonState, collisions: int) -> None:
        owner = state.owner
        current = [node.pods[0] for node in state.nodes if node.should_run and node.pods]
        available = sum(map(state.is_available, current))
        status = DaemonSetStatus(
            desired_number_scheduled=state.desired_count,
            current_number_scheduled=len(current),
            number_misscheduled=sum(bool(node.pods) and not node.should_run for node in state.nodes),
            number_ready=sum(map(is_ready, current)),
            updated_number_scheduled=sum(map(state.is_new, current)),
            number_available=available,
            number_unavailable=state.desired_count - available,
            observed_generation=owner.metadata.generation,
            collision_count=collisions or owner.status.collision_count,
            conditions=owner.status.conditions,
        )
        self._cluster.replace(replace(owner, status=status))
        ready = (pod for node in state.nodes for pod in node.pods if is_ready(pod))
        times = (available_at(pod, owner.spec.min_ready_seconds) for pod in ready)
        self._requeue_at(key_of(owner), times, state.now)


def _age_key(pod: Pod) -> tuple[bool, str, str]:
    """Sort pods: those on a node first, then the oldest."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp or "", pod.metadata.name


def _surplus_pods(state: _DaemonState, running: list[Pod]) -> list[Pod]:
    new = [pod for pod in running if state.is_new(pod)]
    old = [pod for pod in running if not state.is_new(pod)]
    to_delete = new[1:] + old[1:]
    if new and old and (not is_ready(old[0]) or state.is_available(new[0])):
        to_delete.append(old[0])
    return to_delete


def _new_and_old_pod(state: _DaemonState, node: _NodePods) -> tuple[Pod | None, Pod | None]:
    staying = [pod for pod in node.pods if pod.metadata.deletion_timestamp is None]
    new = next((pod for pod in staying if state.is_new(pod)), None)
    return new, next((pod for pod in staying if not state.is_new(pod)), None)


def _plan_replacement(state: _DaemonState) -> _Plan:
    """Plan which old pods to delete: unavailable ones, and others up to the limit of unavailable pods."""
    unavailable = 0
    to_delete: list[Pod] = []
    candidates: list[Pod] = []
    for node in state.nodes:
        if not node.should_run and not node.pods:
            continue
        new, old = _new_and_old_pod(state, node)
        if old is None:
            unavailable += new is None or not state.is_available(new)
        elif new is not None:
            unavailable += 1
        elif state.is_available(old):
            candidates.append(old)
        else:
            to_delete.append(old)
            unavailable += 1
    return _Plan(to_delete + candidates[: max(0, state.rollout_limits[1] - unavailable)], [])


def _plan_surge(state: _DaemonState) -> _Plan:
    """Plan where to create new pods next to old ones, and which old ones are no longer needed."""
    surging = available = 0
    plan = _Plan([], [])
    candidates: list[str] = []
    unwanted: list[Pod] = []
    for node in state.nodes:
        new, old = _new_and_old_pod(state, node)
        kept = old or new
        available += kept is not None and state.is_available(kept)
        if old is None:
            continue
        if new is not None:
            if state.is_available(new):
                plan.to_delete.append(old)
            else:
                surging += 1
        elif not state.is_available(old):
            if node.should_run:
                plan.to_create.append(node.name)
            else:
                plan.to_delete.append(old)
        elif node.should_run:
            candidates.append(node.name)
        else:
            unwanted.append(old)
    plan.to_delete.extend(unwanted[: max(0, available - state.desired_count)])
    plan.to_create.extend(candidates[: max(0, state.rollout_limits[0] - surging)])
    return plan


#: Tolerations that daemon pods have in addition to their template's; the last one only on the host network.
_TOLERATIONS: tuple[dict[str, object], ...] = tuple(
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    )
)


def compile_suitability(owner: DaemonSet) -> Callable[[Node], tuple[bool, bool]]:
    """Compile a function of a node: whether it should run a pod, and whether an existing one may stay."""
    spec = convert({"spec": with_daemon_tolerations(owner.spec.template.spec)}, kind_of(Pod)).spec
    fits = required_node_affinity(spec)

    def evaluate(node: Node) -> tuple[bool, bool]:
        labels, name = node.metadata.labels, node.metadata.name
        if spec.node_name not in ("", name) or (fits is not None and not fits(labels, name)):
            return False, False
        should_run = first_untolerated(node.spec.taints, spec.tolerations, ("NoSchedule", "NoExecute")) is None
        return should_run, first_untolerated(node.spec.taints, spec.tolerations, ("NoExecute",)) is None

    return evaluate


def with_daemon_tolerations(spec: Mapping[str, object]) -> dict[str, object]:
    tolerations = spec.get("tolerations")
    own = tolerations if isinstance(tolerations, list) else []
    added = _TOLERATIONS if spec.get("hostNetwork") else _TOLERATIONS[:-1]
    return {**spec, "tolerations": [*own, *(each for each in added if each not in own)]}


def pin_to_node(spec: Mapping[str, object], node_name: str) -> dict[str, object]:
    """Return the spec of a pod that fits only the node of this name, replacing the template's required affinity."""
    affinity = mapping(spec, "affinity")
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {**mapping(affinity, "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def target_node_name(pod: Pod) -> str:
    """Return the name of the node that a daemon pod is on, or is meant for; "" if there is none."""
    if pod.spec.node_name:
        return pod.spec.node_name
    return next(iter(pinned_nodes(pod.spec) or ()), "")
