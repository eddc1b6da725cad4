"""Revisions of a template: replica sets of deployments and their rollouts, and ControllerRevisions of other sets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.dependents import Dependents
from kframework.in_memory.workloads.replica_set import desired_replicas
from kframework.objects import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    LabelSelector,
    ObjectMeta,
    ReplicaSet,
    RollingUpdate,
    StatefulSet,
    WorkloadPodTemplate,
    WorkloadSpec,
)
from kframework.objects.kinds import owner_reference

#: Annotations of replica sets: the deployment's desired and maximum number of pods when it was last reconciled.
DESIRED, MAXIMUM = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"


def is_rolling(deployment: Deployment) -> bool:
    """Return whether new pods are created before all old ones are deleted."""
    return deployment.spec.strategy.type != "Recreate"


def resolve_count(number: int | str | None, total: int, *, up: bool) -> int:
    """Return a number of pods, a percentage of all rounded up or down; anything else counts as 0."""
    if isinstance(number, int):
        return number
    if number is None or not re.fullmatch(r"[0-9]+%", number):
        return 0
    share = int(number[:-1]) * total
    return -(-share // 100) if up else share // 100


def resolve_fenceposts(deployment: Deployment) -> tuple[int, int]:
    """Return the maximum surge and the maximum number of unavailable pods; not both are 0."""
    if not is_rolling(deployment):
        return 0, 0
    rolling, total = deployment.spec.strategy.rolling_update or RollingUpdate(), desired_replicas(deployment)
    surge = resolve_count("25%" if rolling.max_surge is None else rolling.max_surge, total, up=True)
    unavailable = resolve_count("25%" if rolling.max_unavailable is None else rolling.max_unavailable, total, up=False)
    return surge, (unavailable if surge or unavailable else 1)


def max_unavailable(deployment: Deployment) -> int:
    """Return how many pods may be missing during a rollout."""
    total = desired_replicas(deployment)
    return min(resolve_fenceposts(deployment)[1], total) if is_rolling(deployment) and total else 0


def new_replica_count(deployment: Deployment, replica_sets: Iterable[ReplicaSet], current: int) -> int:
    """Return the size to which the new replica set, now of `current` pods, may grow."""
    if not is_rolling(deployment):
        return desired_replicas(deployment)
    room = desired_replicas(deployment) + resolve_fenceposts(deployment)[0] - replica_count(replica_sets)
    return current + min(room, desired_replicas(deployment) - current) if room > 0 else current


def replica_count(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(desired_replicas(each) for each in replica_sets)


def available_count(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(each.status.available_replicas for each in replica_sets)


def old_replica_counts(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> dict[str, int]:
    """Return the sizes to which old replica sets may shrink, by name: unavailable pods first, oldest sets first."""
    replica_sets = [new, *old]
    lowest = desired_replicas(deployment) - max_unavailable(deployment)
    removable = replica_count(replica_sets) - lowest - (desired_replicas(new) - new.status.available_replicas)
    if removable <= 0:
        return {}
    sizes = {each.metadata.name: desired_replicas(each) for each in old}
    for each in old:
        unhealthy = min(removable, max(0, desired_replicas(each) - each.status.available_replicas))
        sizes[each.metadata.name] -= unhealthy
        removable -= unhealthy
    spare = available_count(replica_sets) - lowest
    for each in old:
        fewer = min(max(0, spare), sizes[each.metadata.name])
        sizes[each.metadata.name] -= fewer
        spare -= fewer
    return {each.metadata.name: size for each in old if (size := sizes[each.metadata.name]) != desired_replicas(each)}


def proportional_sizes(deployment: Deployment, active: list[ReplicaSet]) -> dict[str, int]:
    """Distribute a deployment's change of size during a rollout among its replica sets, by name."""
    total = desired_replicas(deployment)
    allowed = total + resolve_fenceposts(deployment)[0] if total else 0
    change, changed = allowed - replica_count(active), 0
    # The largest grows, of equals the newest; the largest shrinks, of equals the oldest.
    ordered = sorted(active, key=lambda each: each.metadata.creation_timestamp or "", reverse=change > 0)
    ordered.sort(key=lambda each: -desired_replicas(each))
    sizes = {}
    for each in ordered:
        share = _proportion(deployment, each, allowed, change - changed) if change else 0
        sizes[each.metadata.name] = desired_replicas(each) + share
        changed += share
    if ordered and change:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + change - changed)
    return sizes


def _proportion(deployment: Deployment, replica_set: ReplicaSet, allowed: int, left: int) -> int:
    """Return the share of a replica set in the `left` pods to add or remove."""
    size = desired_replicas(replica_set)
    if not size or not left:
        return 0
    if not desired_replicas(deployment):
        fraction = -size
    else:
        before = _parse_count(replica_set.metadata.annotations.get(MAXIMUM)) or deployment.status.replicas or size
        fraction = (2 * size * allowed + before) // (2 * before) - size  # halves away from zero, as Go rounds
    return min(fraction, left) if left > 0 else max(fraction, left)


def _parse_count(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


#: The label that distinguishes pods of different templates.
TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
#: Annotations of a deployment that are not copied to its replica sets.
_SKIPPED_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    _REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
)

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def revision_of(replica_set: ReplicaSet) -> int:
    return _parse_count(replica_set.metadata.annotations.get(REVISION))


def find_new_replica_set(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Find the replica set that has the template of the deployment; of several the oldest."""
    template = _without_hash(deployment.spec.template)
    return next((each for each in replica_sets if _without_hash(each.spec.template) == template), None)


def build_replica_set(deployment: Deployment, revision: int) -> ReplicaSet:
    spec, template = deployment.spec, deployment.spec.template
    name_hash = compute_hash(template, deployment.status.collision_count or 0)
    labels = template.metadata.labels | {TEMPLATE_HASH: name_hash}
    selector = spec.selector or LabelSelector()
    replica_set = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{name_hash}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            owner_references=(owner_reference(deployment),),
        ),
        spec=WorkloadSpec(
            replicas=0,
            min_ready_seconds=spec.min_ready_seconds,
            selector=replace(selector, match_labels=selector.match_labels | {TEMPLATE_HASH: name_hash}),
            template=replace(template, metadata=replace(template.metadata, labels=labels)),
        ),
    )
    return with_deployment_annotations(replica_set, deployment, revision)


def with_deployment_annotations(replica_set: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """Copy the deployment's annotations to the new replica set, and its revision if that is later."""
    annotations = dict(replica_set.metadata.annotations)
    annotations |= {
        key: text for key, text in deployment.metadata.annotations.items() if key not in _SKIPPED_ANNOTATIONS
    }
    before = annotations.get(REVISION, "")
    if revision_of(replica_set) < revision:
        annotations[REVISION] = str(revision)
        if before:
            history = annotations.get(_REVISION_HISTORY)
            annotations[_REVISION_HISTORY] = f"{history},{before}" if history else before
    return replace(replica_set, metadata=replace(replica_set.metadata, annotations=annotations))


def with_replicas(replica_set: ReplicaSet, deployment: Deployment, size: int) -> ReplicaSet:
    """Return a replica set with another number of pods, annotated with the deployment's desired number."""
    total = desired_replicas(deployment)
    annotations = {DESIRED: str(total), MAXIMUM: str(total + resolve_fenceposts(deployment)[0])}
    metadata = replace(replica_set.metadata, annotations=replica_set.metadata.annotations | annotations)
    return replace(replica_set, metadata=metadata, spec=replace(replica_set.spec, replicas=size))


def _without_hash(template: WorkloadPodTemplate) -> WorkloadPodTemplate:
    labels = {key: text for key, text in template.metadata.labels.items() if key != TEMPLATE_HASH}
    return replace(template, metadata=replace(template.metadata, labels=labels, creation_timestamp=None))


def compute_hash(template: object, collisions: int) -> str:
    """Return the hash of a template in the letters of Kubernetes' names; it depends on the content alone."""
    text = msgspec.json.encode((template, collisions), order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:4])
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


#: The label with a pod's revision.
REVISION_LABEL = "controller-revision-hash"
_HASH_LABELS = {StatefulSet: "controller.kubernetes.io/hash", DaemonSet: REVISION_LABEL}

#: The default number of revisions without pods that are kept.
_DEFAULT_LIMIT = 10

W = TypeVar("W", StatefulSet, DaemonSet)


class RevisionHistory(NamedTuple):
    """The revisions of a workload, the oldest first, the one of its template, and how often names have clashed."""

    revisions: list[ControllerRevision]
    update: ControllerRevision
    collisions: int

    def find(self, name: str) -> ControllerRevision | None:
        return next((each for each in self.revisions if each.metadata.name == name), None)


class Revisions(Generic[W]):
    """The revisions of the workloads of a kind."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.dependents: Dependents[ControllerRevision] = Dependents(cluster, ControllerRevision)

    def sync_history(self, owner: W) -> RevisionHistory:
        """Return the revisions of a workload; the one of its template is created, or becomes the latest again."""
        claimed = self.dependents.claim(owner)
        revisions: list[ControllerRevision] = sorted(
            claimed, key=lambda each: (each.revision, each.metadata.creation_timestamp or "")
        )
        template = {"$patch": "replace", **to_builtins(owner.spec.template)}
        data: dict[str, object] = {"spec": {"template": template}}
        collisions = owner.status.collision_count or 0
        equal: list[ControllerRevision] = [each for each in revisions if each.data == data]
        if equal and equal[-1] is revisions[-1]:
            return RevisionHistory(revisions, revisions[-1], collisions)
        number = revisions[-1].revision + 1 if revisions else 1
        if equal:
            update = self._cluster.replace(replace(equal[-1], revision=number))
            return RevisionHistory([*(each for each in revisions if each is not equal[-1]), update], update, collisions)
        revision = _build_revision(owner, data, number, collisions)
        while self._cluster.find(ControllerRevision, revision.metadata.name, revision.metadata.namespace) is not None:
            collisions += 1
            revision = _build_revision(owner, data, number, collisions)
        update = self._cluster.add(revision)
        return RevisionHistory([*revisions, update], update, collisions)

    def clean_up(self, owner: W, history: RevisionHistory, alive: Collection[str]) -> None:
        limit = owner.spec.revision_history_limit
        past = [each for each in history.revisions if each.metadata.name not in alive and each is not history.update]
        for each in past[: max(0, len(past) - (_DEFAULT_LIMIT if limit is None else limit))]:
            self._cluster.remove_object(each)


def revision_template(revision: ControllerRevision) -> WorkloadPodTemplate:
    """Return the template of a revision; an empty one if it cannot be decoded."""
    spec = revision.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    try:
        return convert(template, WorkloadPodTemplate)
    except ValidationError:
        return WorkloadPodTemplate()


def revision_hash(revision: ControllerRevision) -> str:
    return revision.metadata.name.rpartition("-")[2]


def _build_revision(
    owner: StatefulSet | DaemonSet, data: dict[str, object], number: int, collisions: int
) -> ControllerRevision:
    name_hash = compute_hash(data, collisions)
    return ControllerRevision(
        metadata=ObjectMeta(
            name=f"{owner.metadata.name[:223]}-{name_hash}",
            namespace=owner.metadata.namespace,
            labels=owner.spec.template.metadata.labels | {_HASH_LABELS[type(owner)]: name_hash},
            annotations=owner.metadata.annotations,
            owner_references=(owner_reference(owner),),
        ),
        data=data,
        revision=number,
    )
