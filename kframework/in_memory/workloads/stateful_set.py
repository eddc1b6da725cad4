"""The StatefulSet controller: pods with stable names and claims, created in order or in parallel."""

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
    can_create_pods,
    create_pod,
    is_orphan,
    mapping,
    owner_keys,
    update_status,
)
from kframework.in_memory.workloads.revisions import REVISION_LABEL, RevisionHistory, Revisions, revision_template
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
from kframework.objects.kinds import owner_reference

_POD_NAME = re.compile(r"(.*)-(\d{1,10})")


class _SetState(NamedTuple):
    """A stateful set with its pods by ordinal; some may be missing or surplus."""

    owner: StatefulSet
    history: RevisionHistory
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
        """The surplus ordinals, the highest first."""
        return sorted((ordinal for ordinal in self.pods if ordinal not in self.ordinals), reverse=True)

    @property
    def is_ordered(self) -> bool:
        return self.owner.spec.pod_management_policy != "Parallel"

    def is_available(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and pod.metadata.deletion_timestamp is None and self.available_at(pod) <= self.now

    def available_at(self, pod: Pod) -> float:
        runs = pod.status.phase == "Running"
        return available_at(pod, self.owner.spec.min_ready_seconds) if runs else math.inf


class StatefulSetController(ControlLoop):
    """Creates, updates and deletes the pods of stateful sets, and creates their claims."""

    kinds: ClassVar[tuple[type[ApiObject], ...]] = (StatefulSet, Pod, ControllerRevision, PersistentVolumeClaim)

    def __init__(self, cluster: MemoryCluster, clock: Clock) -> None:
        super().__init__(cluster, clock)
        self._pods: Dependents[Pod] = Dependents(cluster, Pod)
        self._revisions: Revisions[StatefulSet] = Revisions(cluster)
        self._claims = StatefulSetClaims(cluster)

    def _affected_keys(self, change: Change) -> Iterator[Key]:
        match change.subject:
            case StatefulSet() as owner:
                yield key_of(owner)
            case ControllerRevision():
                self._revisions.dependents.index(change)
                yield from owner_keys(change, "StatefulSet")
            case PersistentVolumeClaim() as claim if change.new is None:
                # A pod of the same name may wait for its deletion.
                pods = (each.name for each in claim.metadata.owner_references if each.kind == "Pod")
                yield from ((claim.metadata.namespace, name.rpartition("-")[0]) for name in pods)
            case Pod() as pod:
                self._pods.index(change)
                yield from owner_keys(change, "StatefulSet")
                member = _POD_NAME.fullmatch(pod.metadata.name)
                if member and is_orphan(change.new):
                    yield pod.metadata.namespace, member[1]

    def _reconcile(self, key: Key) -> None:
        owner = self._cluster.find(StatefulSet, key[1], key[0])
        if owner is None or owner.metadata.deletion_timestamp is not None or not can_create_pods(owner):
            return
        name = owner.metadata.name
        history = self._revisions.sync_history(owner)
        current = history.find(owner.status.current_revision) or history.update
        owned = self._pods.claim(owner, lambda pod: _parse_ordinal(pod, name) is not None)
        pods = {ordinal: pod for pod in owned if (ordinal := _parse_ordinal(pod, name)) is not None}
        state = _SetState(owner, history, current, dict(sorted(pods.items())), self._clock.now())
        self._update_pods(state)
        alive = {current.metadata.name, *(pod.metadata.labels.get(REVISION_LABEL, "") for pod in owned)}
        self._revisions.clean_up(owner, history, alive)
        self._update_status(state)

    def _update_pods(self, state: _SetState) -> None:
        """Take the next actions; with ordered management, one at a time."""
        for ordinal in state.ordinals:
            if not self._process_replica(state, ordinal) and state.is_ordered:
                return
        for ordinal in state.condemned:
            self._claims.update_owners(state.owner, state.pods[ordinal], ordinal, condemned=True)
        # The lowest unavailable ordinal; condemned ones come last.
        ordered = (*state.ordinals, *reversed(state.condemned))
        first = next((ordinal for ordinal in ordered if not state.is_available(ordinal)), None)
        for ordinal in state.condemned:
            pod = state.pods[ordinal]
            waits = pod.metadata.deletion_timestamp is not None
            waits = waits or (state.is_ordered and ordinal != first and not state.is_available(ordinal))
            if not waits:
                self._cluster.remove_object(pod)
            if state.is_ordered:
                return
        if state.owner.spec.update_strategy.type != "OnDelete":
            self._roll_update(state)

    def _process_replica(self, state: _SetState, ordinal: int) -> bool:
        """Create a pod, or maintain the existing one; return whether the next ordinal may be processed."""
        owner, pod = state.owner, state.pods.get(ordinal)
        if pod is None:
            if not self._claims.has_stale(owner, ordinal):
                self._claims.create_missing(owner, ordinal)
                self._claims.update_owners(owner, self._create_pod(state, ordinal), ordinal, condemned=False)
            return False
        if has_ended(pod):
            if pod.metadata.deletion_timestamp is None:
                self._cluster.remove_object(pod)
            return False
        if pod.status.phase == "Pending":
            self._claims.create_missing(owner, ordinal)
        if state.is_ordered and not state.is_available(ordinal):
            return False
        self._claims.update_owners(owner, pod, ordinal, condemned=False)
        return True

    def _create_pod(self, state: _SetState, ordinal: int) -> Pod:
        owner, is_current = state.owner, _gets_current_revision(state, ordinal)
        revision = state.current if is_current else state.history.update
        template = revision_template(revision) if is_current else owner.spec.template
        name = pod_name(owner, ordinal)
        labels = template.metadata.labels | {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION_LABEL: revision.metadata.name,
        }
        network = {"hostname": name} | ({"subdomain": owner.spec.service_name} if owner.spec.service_name else {})
        spec = with_claim_volumes(owner, ordinal, template.spec) | network
        return create_pod(self._cluster, owner, template, spec, name=name, labels=labels)

    def _roll_update(self, state: _SetState) -> None:
        """Delete the outdated pod with the highest ordinal, once all above are available."""
        rolling = state.owner.spec.update_strategy.rolling_update
        partition = (rolling.partition or 0) if rolling is not None else 0
        for ordinal in reversed(state.ordinals[partition:]):
            pod = state.pods.get(ordinal)
            if (
                pod is not None
                and pod.metadata.deletion_timestamp is None
                and not _has_revision(pod, state.history.update)
            ):
                self._cluster.remove_object(pod)
                return
            if not state.is_available(ordinal):
                return

    def _update_status(self, state: _SetState) -> None:
        owner, update = state.owner, state.history.update
        keys = map(key_of, state.pods.values())
        pods = [pod for namespace, name in keys if (pod := self._cluster.find(Pod, name, namespace)) is not None]
        pods += [
            pod for pod in self._pods.owned_by(owner) if all(pod.metadata.uid != each.metadata.uid for each in pods)
        ]
        staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        ready = [pod for pod in pods if pod.status.phase == "Running" and is_ready(pod)]
        times = [state.available_at(pod) for pod in ready]
        status = StatefulSetStatus(
            observed_generation=owner.metadata.generation,
            replicas=len(pods),
            ready_replicas=len(ready),
            available_replicas=sum(time <= state.now for time in times),
            current_replicas=sum(_has_revision(pod, state.current) for pod in staying),
            updated_replicas=sum(_has_revision(pod, update) for pod in staying),
            current_revision=state.current.metadata.name,
            update_revision=update.metadata.name,
            collision_count=state.history.collisions,
            conditions=owner.status.conditions,
        )
        count = len(state.ordinals)
        is_done = (status.updated_replicas, status.ready_replicas, status.replicas) == (count, count, count)
        if is_done and owner.spec.update_strategy.type != "OnDelete":
            status = replace(status, current_replicas=count, current_revision=status.update_revision)
        update_status(self._cluster, owner, status)
        self._requeue_at(key_of(owner), times, state.now)


def _parse_ordinal(pod: Pod, set_name: str) -> int | None:
    match = _POD_NAME.fullmatch(pod.metadata.name)
    return int(match[2]) if match is not None and match[1] == set_name else None


def _has_revision(pod: Pod, revision: ControllerRevision) -> bool:
    return pod.metadata.labels.get(REVISION_LABEL) == revision.metadata.name


def _gets_current_revision(state: _SetState, ordinal: int) -> bool:
    """Return whether a pod created now still gets the current revision, not the update revision."""
    strategy = state.owner.spec.update_strategy
    if strategy.rolling_update is not None:
        return ordinal < state.ordinals.start + (strategy.rolling_update.partition or 0)
    is_rolling = strategy.type != "OnDelete"
    return is_rolling and ordinal < state.ordinals.start + state.owner.status.current_replicas


class StatefulSetClaims:
    """Creates the claims of stateful sets, and has them deleted with the set or a pod, by the set's policy."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def create_missing(self, owner: StatefulSet, ordinal: int) -> None:
        namespace = owner.metadata.namespace
        selector = owner.spec.selector
        for template, name in zip(owner.spec.volume_claim_templates, claim_names(owner, ordinal), strict=True):
            if self._cluster.find(PersistentVolumeClaim, name, namespace) is None:
                metadata = mapping(template, "metadata")
                labels = {**mapping(metadata, "labels"), **(selector.match_labels if selector is not None else {})}
                document: dict[str, object] = {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {**metadata, "name": name, "namespace": namespace, "labels": labels},
                    "spec": mapping(template, "spec"),
                }
                self._cluster.add(convert(document, kind_of(PersistentVolumeClaim)), document=document)

    def has_stale(self, owner: StatefulSet, ordinal: int) -> bool:
        """Return whether claims are still to be deleted with the previous pod of this name."""
        if _retention_policy(owner).when_scaled != "Delete":
            return False
        references = (each for claim in self._existing(owner, ordinal) for each in claim.metadata.owner_references)
        return any((each.kind, each.name) == ("Pod", pod_name(owner, ordinal)) for each in references)

    def update_owners(self, owner: StatefulSet, pod: Pod, ordinal: int, *, condemned: bool) -> None:
        """Set the owner of a pod's claims: the pod, its set, or neither, by the set's policy."""
        policy = _retention_policy(owner)
        if condemned and policy.when_scaled == "Delete":
            new_owner: ApiObject | None = pod
        else:
            new_owner = owner if policy.when_deleted == "Delete" else None
        both: tuple[ApiObject, ...] = (owner, pod)
        ours = {(kind_of(each).name, each.metadata.name): each.metadata.uid for each in both}
        for claim in self._existing(owner, ordinal):
            references = claim.metadata.owner_references
            if any(each.uid != ours.get((each.kind, each.name), each.uid) for each in references):
                continue  # owned by an earlier set or pod, and deleted with it
            others = tuple(each for each in references if (each.kind, each.name) not in ours)
            if new_owner is not None and not any(each.controller for each in others):
                others = (*others, owner_reference(new_owner))
            self._cluster.replace(replace(claim, metadata=replace(claim.metadata, owner_references=others)))

    def _existing(self, owner: StatefulSet, ordinal: int) -> Iterator[PersistentVolumeClaim]:
        for name in claim_names(owner, ordinal):
            claim = self._cluster.find(PersistentVolumeClaim, name, owner.metadata.namespace)
            if claim is not None:
                yield claim


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    return f"{owner.metadata.name}-{ordinal}"


def claim_names(owner: StatefulSet, ordinal: int) -> list[str]:
    return [f"{name}-{pod_name(owner, ordinal)}" for name in _template_names(owner)]


def with_claim_volumes(owner: StatefulSet, ordinal: int, spec: Mapping[str, object]) -> dict[str, object]:
    """Return the spec of a pod with its claims as volumes, which replace volumes of the same names."""
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


def _retention_policy(owner: StatefulSet) -> ClaimRetentionPolicy:
    return owner.spec.persistent_volume_claim_retention_policy or ClaimRetentionPolicy()
