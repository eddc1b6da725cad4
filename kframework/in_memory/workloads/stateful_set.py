"""The StatefulSet controller: pods with names and claims of their own, one after the other or all together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
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
    is_orphan,
    make_pod,
    makes_pods,
    mapping,
    owner_reference,
    pod_metadata,
    selector_of,
    set_status,
    touched_owners,
)
from kframework.in_memory.workloads.revisions import REVISION_LABEL, History, Revisions, template_of
from kframework.objects import (
    ApiObject,
    ClaimRetentionPolicy,
    ControllerRevision,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StatefulSetStatus,
    convert,
    kind_of,
)

_MEMBER = re.compile(r"(.*)-(\d{1,10})")


class _Set(NamedTuple):
    """A stateful set with its pods by ordinal; it may have more than it wants, or fewer."""

    owner: StatefulSet
    history: History
    current: ControllerRevision
    pods: dict[int, Pod]
    now: float

    @property
    def ordinals(self) -> range:
        spec = self.owner.spec
        start = spec.ordinals.start if spec.ordinals is not None else 0
        return range(start, start + (1 if spec.replicas is None else spec.replicas))

    @property
    def condemned(self) -> list[int]:
        """The ordinals that are too many, the highest first."""
        return sorted((ordinal for ordinal in self.pods if ordinal not in self.ordinals), reverse=True)

    @property
    def is_ordered(self) -> bool:
        return self.owner.spec.pod_management_policy != "Parallel"

    def is_available(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and pod.metadata.deletion_timestamp is None and self.available_at(pod) <= self.now

    def available_at(self, pod: Pod) -> float:
        """Return when a pod has been, or will be, ready for long enough."""
        runs = pod.status.phase == "Running"
        return available_at(pod, self.owner.spec.min_ready_seconds) if runs else math.inf


class StatefulSetController(ControlLoop):
    """Creates, updates and deletes the pods of stateful sets, and creates their claims."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (StatefulSet, Pod, ControllerRevision, PersistentVolumeClaim)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        revisions: Dependents[ControllerRevision] = Dependents(cluster, ControllerRevision)
        self._owned_revisions = revisions
        self._revisions: Revisions[StatefulSet] = Revisions(cluster, revisions)
        self._claims = Claims(cluster)

    def _touched(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case StatefulSet() as owner:
                yield key_of(owner)
            case ControllerRevision():
                self._owned_revisions.file(change)
                yield from touched_owners(change, "StatefulSet")
            case PersistentVolumeClaim() as claim if change.new is None:
                # A pod of the same name may wait for it to be gone.
                pods = (each.name for each in claim.metadata.owner_references if each.kind == "Pod")
                yield from ((claim.metadata.namespace, name.rpartition("-")[0]) for name in pods)
            case Pod() as pod:
                self._pods.file(change)
                yield from touched_owners(change, "StatefulSet")
                member = _MEMBER.fullmatch(pod.metadata.name)
                if member and is_orphan(change.new):
                    yield pod.metadata.namespace, member[1]

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(StatefulSet, key[1], key[0])
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return
        selector, prefix = selector_of(owner.spec.selector), f"{owner.metadata.name}-"
        if not makes_pods(owner, owner.spec.template, selector):
            return
        history = self._revisions.history(owner)
        current = history.named(owner.status.current_revision) or history.update
        claimed = self._pods.claimed(owner, selector, lambda pod: _ordinal(pod, prefix) is not None)
        pods = {ordinal: pod for pod in claimed if (ordinal := _ordinal(pod, prefix)) is not None}
        state = _Set(owner, history, current, dict(sorted(pods.items())), self._clock.now())
        self._act(state)
        alive = {current.metadata.name, *(pod.metadata.labels.get(REVISION_LABEL, "") for pod in claimed)}
        self._revisions.forget_old(owner, history, alive)
        self._tell(state)

    def _act(self, state: _Set) -> None:
        """Take the next actions; with ordered management, one at a time."""
        for ordinal in state.ordinals:
            if not self._keep(state, ordinal) and state.is_ordered:
                return
        for ordinal in state.condemned:
            self._claims.own(state.owner, state.pods[ordinal], ordinal, condemned=True)
        # The lowest that is not available, first of those that it wants.
        ordered = (*state.ordinals, *reversed(state.condemned))
        first = next((ordinal for ordinal in ordered if not state.is_available(ordinal)), None)
        for ordinal in state.condemned:
            pod = state.pods[ordinal]
            waits = pod.metadata.deletion_timestamp is not None
            waits = waits or (state.is_ordered and ordinal != first and not state.is_available(ordinal))
            if not waits:
                delete_pod(self._cluster, pod)
            if state.is_ordered:
                return
        if state.owner.spec.update_strategy.type != "OnDelete":
            self._update(state)

    def _keep(self, state: _Set, ordinal: int) -> bool:
        """Create a pod, or maintain the existing one; return whether the next in order has its turn."""
        owner, pod = state.owner, state.pods.get(ordinal)
        if pod is None:
            if not self._claims.are_stale(owner, ordinal):
                self._claims.make_missing(owner, ordinal)
                self._claims.own(owner, self._make(state, ordinal), ordinal, condemned=False)
            return False
        if has_ended(pod):
            if pod.metadata.deletion_timestamp is None:
                delete_pod(self._cluster, pod)
            return False
        if pod.status.phase == "Pending":
            self._claims.make_missing(owner, ordinal)
        if state.is_ordered and not state.is_available(ordinal):
            return False
        self._claims.own(owner, pod, ordinal, condemned=False)
        return True

    def _make(self, state: _Set, ordinal: int) -> Pod:
        owner, is_old = state.owner, _stays_behind(state, ordinal)
        revision = state.current if is_old else state.history.update
        template = template_of(revision) if is_old else owner.spec.template
        name = pod_name(owner, ordinal)
        labels = template.metadata.labels | {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_LABEL: revision.metadata.name,
        }
        network = {"hostname": name} | ({"subdomain": owner.spec.service_name} if owner.spec.service_name else {})
        spec = with_claims(owner, ordinal, template.spec) | network
        return make_pod(self._cluster, pod_metadata(owner, template, name=name, labels=labels), spec)

    def _update(self, state: _Set) -> None:
        """Delete the pod with the highest ordinal that has an old template, once those above are available."""
        rolling = state.owner.spec.update_strategy.rolling_update
        partition = (rolling.partition or 0) if rolling is not None else 0
        for ordinal in reversed(state.ordinals[partition:]):
            pod = state.pods.get(ordinal)
            if pod is not None and pod.metadata.deletion_timestamp is None and not _is_of(pod, state.history.update):
                delete_pod(self._cluster, pod)
                return
            if not state.is_available(ordinal):
                return

    def _tell(self, state: _Set) -> None:
        """Update the numbers of pods in the status, and requeue for when one will be available."""
        owner, update = state.owner, state.history.update
        keys = map(key_of, state.pods.values())
        pods = [pod for namespace, name in keys if (pod := self._cluster.find(Pod, name, namespace)) is not None]
        pods += [pod for pod in self._pods.of(owner) if all(pod.metadata.uid != each.metadata.uid for each in pods)]
        staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        ready = [pod for pod in pods if pod.status.phase == "Running" and is_ready(pod)]
        times = [state.available_at(pod) for pod in ready]
        status = StatefulSetStatus(
            observed_generation=owner.metadata.generation,
            replicas=len(pods),
            ready_replicas=len(ready),
            available_replicas=sum(time <= state.now for time in times),
            current_replicas=sum(_is_of(pod, state.current) for pod in staying),
            updated_replicas=sum(_is_of(pod, update) for pod in staying),
            current_revision=state.current.metadata.name,
            update_revision=update.metadata.name,
            collision_count=state.history.collisions,
            conditions=owner.status.conditions,
        )
        count = len(state.ordinals)
        is_done = (status.updated_replicas, status.ready_replicas, status.replicas) == (count, count, count)
        if is_done and owner.spec.update_strategy.type != "OnDelete":
            status = replace(status, current_replicas=count, current_revision=status.update_revision)
        set_status(self._cluster, owner, status)
        self._look_again(key_of(owner), times, state.now)


def _ordinal(pod: Pod, prefix: str) -> int | None:
    """Return the number of a pod whose name begins with that of its set."""
    rest = pod.metadata.name.removeprefix(prefix)
    is_member = pod.metadata.name.startswith(prefix) and rest.isdecimal() and len(rest) < 11
    return int(rest) if is_member else None


def _is_of(pod: Pod, revision: ControllerRevision) -> bool:
    return pod.metadata.labels.get(REVISION_LABEL) == revision.metadata.name


def _stays_behind(state: _Set, ordinal: int) -> bool:
    """Return whether a pod created now still gets the previous template."""
    strategy = state.owner.spec.update_strategy
    if strategy.rolling_update is not None:
        return ordinal < state.ordinals.start + (strategy.rolling_update.partition or 0)
    is_rolling = strategy.type != "OnDelete"
    return is_rolling and ordinal < state.ordinals.start + state.owner.status.current_replicas


class Claims:
    """Creates the claims of stateful sets, and has them deleted with the set or a pod, by the set's policy."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def make_missing(self, owner: StatefulSet, ordinal: int) -> None:
        """Create the missing claims of a pod."""
        namespace = owner.metadata.namespace
        selector = owner.spec.selector
        for template, name in zip(owner.spec.volume_claim_templates, claim_names(owner, ordinal), strict=True):
            if self._cluster.find(PersistentVolumeClaim, name, namespace) is None:
                metadata = mapping(template, "metadata")
                labels = {**mapping(metadata, "labels"), **(selector.match_labels if selector is not None else {})}
                written: dict[str, object] = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {**metadata, "name": name, "namespace": namespace, "labels": labels},
                    "spec": mapping(template, "spec"),
                }
                self._cluster.add(convert(written, kind_of(PersistentVolumeClaim)), written=written)

    def are_stale(self, owner: StatefulSet, ordinal: int) -> bool:
        """Return whether claims of a pod to be created are still to be deleted with the last one of its name."""
        if _policy(owner).when_scaled != "Delete":
            return False
        references = (each for claim in self._of(owner, ordinal) for each in claim.metadata.owner_references)
        return any((each.kind, each.name) == ("Pod", pod_name(owner, ordinal)) for each in references)

    def own(self, owner: StatefulSet, pod: Pod, ordinal: int, *, condemned: bool) -> None:
        """Set the owner of a pod's claims: the pod, its set, or neither, by the set's policy."""
        policy = _policy(owner)
        if condemned and policy.when_scaled == "Delete":
            wanted: ApiObject | None = pod
        else:
            wanted = owner if policy.when_deleted == "Delete" else None
        both: tuple[ApiObject, ...] = (owner, pod)
        ours = {(kind_of(each).name, each.metadata.name): each.metadata.uid for each in both}
        for claim in self._of(owner, ordinal):
            references = claim.metadata.owner_references
            if any(each.uid != ours.get((each.kind, each.name), each.uid) for each in references):
                continue  # they belong to a set or pod of before, and go with it
            others = tuple(each for each in references if (each.kind, each.name) not in ours)
            if wanted is not None and not any(each.controller for each in others):
                others = (*others, owner_reference(wanted))
            self._cluster.replace(replace(claim, metadata=replace(claim.metadata, owner_references=others)))

    def _of(self, owner: StatefulSet, ordinal: int) -> Iterator[PersistentVolumeClaim]:
        for name in claim_names(owner, ordinal):
            claim = self._cluster.find(PersistentVolumeClaim, name, owner.metadata.namespace)
            if claim is not None:
                yield claim


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    """Return the name of a set's pod."""
    return f"{owner.metadata.name}-{ordinal}"


def claim_names(owner: StatefulSet, ordinal: int) -> list[str]:
    """List the names of a pod's claims, in the order of their templates."""
    return [f"{name}-{pod_name(owner, ordinal)}" for name in _template_names(owner)]


def with_claims(owner: StatefulSet, ordinal: int, spec: Mapping[str, object]) -> dict[str, object]:
    """Return the spec of a pod with its claims as volumes, in the place of volumes of their names."""
    names = _template_names(owner)
    volumes = spec.get("volumes")
    others = (
        [each for each in volumes if not (isinstance(each, dict) and each.get("name") in names)]
        if isinstance(volumes, list)
        else []
    )
    own = [
        {"name": name, "persistentVolumeClaim": {"claimName": claim}}
        for name, claim in zip(names, claim_names(owner, ordinal), strict=True)
    ]
    return {**spec, "volumes": [*own, *others]} if own else dict(spec)


def _template_names(owner: StatefulSet) -> list[str]:
    return [str(mapping(each, "metadata").get("name", "")) for each in owner.spec.volume_claim_templates]


def _policy(owner: StatefulSet) -> ClaimRetentionPolicy:
    return owner.spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()
