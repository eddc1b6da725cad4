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
from kframework.in_memory.workloads.dependents import Dependents, owner_reference, selector_of
from kframework.in_memory.workloads.replica_set import wanted
from kframework.objects import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    LabelSelector,
    ObjectMeta,
    PodTemplate,
    ReplicaSet,
    RollingUpdate,
    StatefulSet,
    WorkloadSpec,
)

#: Annotations of replica sets: how many pods the deployment wanted, and could have, when it was last reconciled.
DESIRED, MAXIMUM = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"


def is_rolling(deployment: Deployment) -> bool:
    """Return whether new pods come while old ones go."""
    return deployment.spec.strategy.type != "Recreate"


def scaled(number: int | str | None, total: int, *, up: bool) -> int:
    """Return a number of pods, a percentage of all rounded up or down; anything else counts as 0."""
    if isinstance(number, int):
        return number
    if number is None or not re.fullmatch(r"[0-9]+%", number):
        return 0
    share = int(number[:-1]) * total
    return -(-share // 100) if up else share // 100


def fenceposts(deployment: Deployment) -> tuple[int, int]:
    """Return how many pods more, and how many fewer, there may be than wanted; not both are 0."""
    if not is_rolling(deployment):
        return 0, 0
    rolling, total = deployment.spec.strategy.rolling_update or RollingUpdate(), wanted(deployment)
    surge = scaled("25%" if rolling.max_surge is None else rolling.max_surge, total, up=True)
    unavailable = scaled("25%" if rolling.max_unavailable is None else rolling.max_unavailable, total, up=False)
    return surge, (unavailable if surge or unavailable else 1)


def max_unavailable(deployment: Deployment) -> int:
    """Return how many pods may be missing during a rollout."""
    total = wanted(deployment)
    return min(fenceposts(deployment)[1], total) if is_rolling(deployment) and total else 0


def size_of_new(deployment: Deployment, every: Iterable[ReplicaSet], current: int) -> int:
    """Return to what size the new replica set may grow now, which has `current` pods."""
    if not is_rolling(deployment):
        return wanted(deployment)
    room = wanted(deployment) + fenceposts(deployment)[0] - total_of(every)
    return current + min(room, wanted(deployment) - current) if room > 0 else current


def total_of(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods replica sets want together."""
    return sum(wanted(each) for each in replica_sets)


def available_of(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods of replica sets are available together."""
    return sum(each.status.available_replicas for each in replica_sets)


def sizes_of_old(deployment: Deployment, new: ReplicaSet, old: list[ReplicaSet]) -> dict[str, int]:
    """Return to what sizes old replica sets may shrink now, by name: first what is not available, the oldest first."""
    every = [new, *old]
    lowest = wanted(deployment) - max_unavailable(deployment)
    removable = total_of(every) - lowest - (wanted(new) - new.status.available_replicas)
    if removable <= 0:
        return {}
    sizes = {each.metadata.name: wanted(each) for each in old}
    for each in old:
        unhealthy = min(removable, max(0, wanted(each) - each.status.available_replicas))
        sizes[each.metadata.name] -= unhealthy
        removable -= unhealthy
    spare = available_of(every) - lowest
    for each in old:
        fewer = min(max(0, spare), sizes[each.metadata.name])
        sizes[each.metadata.name] -= fewer
        spare -= fewer
    return sizes


def proportional_sizes(deployment: Deployment, active: list[ReplicaSet]) -> dict[str, int]:
    """Distribute a deployment's change of size during a rollout among its replica sets, by name."""
    total = wanted(deployment)
    allowed = total + fenceposts(deployment)[0] if total else 0
    change, changed = allowed - total_of(active), 0
    # The largest grows, of equals the newest; the largest shrinks, of equals the oldest.
    ordered = sorted(active, key=lambda each: each.metadata.creation_timestamp or "", reverse=change > 0)
    ordered.sort(key=lambda each: -wanted(each))
    sizes = {}
    for each in ordered:
        share = _share(deployment, each, allowed, change - changed) if change else 0
        sizes[each.metadata.name] = wanted(each) + share
        changed += share
    if ordered and change:
        largest = ordered[0].metadata.name
        sizes[largest] = max(0, sizes[largest] + change - changed)
    return sizes


def _share(deployment: Deployment, replica_set: ReplicaSet, allowed: int, left: int) -> int:
    """Return how many of the pods that are still to be shared out fall to a replica set."""
    size = wanted(replica_set)
    if not size or not left:
        return 0
    if not wanted(deployment):
        fraction = -size
    else:
        before = _number(replica_set.metadata.annotations.get(MAXIMUM)) or deployment.status.replicas or size
        fraction = (2 * size * allowed + before) // (2 * before) - size  # halves away from zero, as Go rounds
    return min(fraction, left) if left > 0 else max(fraction, left)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


#: The label that distinguishes pods of different templates.
TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
#: Annotations of a deployment that its replica sets do not inherit.
_NOT_TAKEN = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    _REVISION_HISTORY,
    DESIRED,
    MAXIMUM,
)

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def revision_of(replica_set: ReplicaSet) -> int:
    """Return the revision of a replica set, 0 if it has none."""
    return _number(replica_set.metadata.annotations.get(REVISION))


def new_among(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Find the replica set that has the template of the deployment; of several the oldest."""
    template = _without_hash(deployment.spec.template)
    return next((each for each in replica_sets if _without_hash(each.spec.template) == template), None)


def made_for(deployment: Deployment, revision: int) -> ReplicaSet:
    """Create the replica set for a template that has none yet, without pods at first."""
    spec, template = deployment.spec, deployment.spec.template
    name_hash = hashed(template, deployment.status.collision_count or 0)
    labels = template.metadata.labels | {TEMPLATE_HASH: name_hash}
    selector = spec.selector or LabelSelector()
    made = ReplicaSet(
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
    return annotated(made, deployment, revision)


def annotated(replica_set: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """Copy the deployment's annotations to the new replica set, and its revision if that is later."""
    annotations = dict(replica_set.metadata.annotations)
    annotations |= {key: text for key, text in deployment.metadata.annotations.items() if key not in _NOT_TAKEN}
    before = annotations.get(REVISION, "")
    if revision_of(replica_set) < revision:
        annotations[REVISION] = str(revision)
        if before:
            history = annotations.get(_REVISION_HISTORY)
            annotations[_REVISION_HISTORY] = f"{history},{before}" if history else before
    return replace(replica_set, metadata=replace(replica_set.metadata, annotations=annotations))


def sized(replica_set: ReplicaSet, deployment: Deployment, size: int) -> ReplicaSet:
    """Return a replica set with another number of pods, and word of how many the deployment wants."""
    total = wanted(deployment)
    told = {DESIRED: str(total), MAXIMUM: str(total + fenceposts(deployment)[0])}
    metadata = replace(replica_set.metadata, annotations=replica_set.metadata.annotations | told)
    return replace(replica_set, metadata=metadata, spec=replace(replica_set.spec, replicas=size))


def _without_hash(template: PodTemplate) -> PodTemplate:
    labels = {key: text for key, text in template.metadata.labels.items() if key != TEMPLATE_HASH}
    return replace(template, metadata=replace(template.metadata, labels=labels, creation_timestamp=None))


def hashed(template: object, collisions: int) -> str:
    """Return the hash of a template in the letters of Kubernetes' names; it depends on the content alone."""
    text = msgspec.json.encode((template, collisions), order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:4])
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


#: The label with a pod's revision.
REVISION_LABEL = "controller-revision-hash"
_HASH_LABELS = {StatefulSet: "controller.kubernetes.io/hash", DaemonSet: REVISION_LABEL}

#: The default number of revisions without pods that are kept.
_HISTORY = 10

W = TypeVar("W", StatefulSet, DaemonSet)


class History(NamedTuple):
    """The revisions of a workload, the oldest first, the one of its template, and how often names have clashed."""

    every: list[ControllerRevision]
    update: ControllerRevision
    collisions: int

    def named(self, name: str) -> ControllerRevision | None:
        """Find a revision."""
        return next((each for each in self.every if each.metadata.name == name), None)


class Revisions(Generic[W]):
    """The revisions of the workloads of a kind."""

    def __init__(self, cluster: MemoryCluster, dependents: Dependents[ControllerRevision]) -> None:
        self._cluster = cluster
        self._dependents = dependents

    def history(self, owner: W) -> History:
        """Return the revisions of a workload, after the one of its template is made, or the latest again."""
        claimed = self._dependents.claimed(owner, selector_of(owner.spec.selector), lambda revision: True)
        every: list[ControllerRevision] = sorted(
            claimed, key=lambda each: (each.revision, each.metadata.creation_timestamp or "")
        )
        template = {"$patch": "replace", **to_builtins(owner.spec.template)}
        data: dict[str, object] = {"spec": {"template": template}}
        collisions = owner.status.collision_count or 0
        equal: list[ControllerRevision] = [each for each in every if each.data == data]
        if equal and equal[-1] is every[-1]:
            return History(every, every[-1], collisions)
        number = every[-1].revision + 1 if every else 1
        if equal:
            update = self._cluster.replace(replace(equal[-1], revision=number))
            return History([*(each for each in every if each is not equal[-1]), update], update, collisions)
        made = _made(owner, data, number, collisions)
        while self._cluster.find(ControllerRevision, made.metadata.name, made.metadata.namespace) is not None:
            collisions += 1
            made = _made(owner, data, number, collisions)
        update = self._cluster.add(made)
        return History([*every, update], update, collisions)

    def forget_old(self, owner: W, history: History, alive: Collection[str]) -> None:
        """Delete the oldest revisions without pods, except those that the history keeps."""
        limit = owner.spec.revision_history_limit
        past = [each for each in history.every if each.metadata.name not in alive and each is not history.update]
        for each in past[: max(0, len(past) - (_HISTORY if limit is None else limit))]:
            metadata = each.metadata
            self._cluster.remove(ControllerRevision, metadata.name, metadata.namespace, uid=metadata.uid)


def template_of(revision: ControllerRevision) -> PodTemplate:
    """Return the template of a revision; an empty one if its data are no template."""
    spec = revision.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    try:
        return convert(template, PodTemplate)
    except ValidationError:
        return PodTemplate()


def hash_of(revision: ControllerRevision) -> str:
    """Return the end of a revision's name."""
    return revision.metadata.name.rpartition("-")[2]


def _made(owner: StatefulSet | DaemonSet, data: dict[str, object], number: int, collisions: int) -> ControllerRevision:
    name_hash = hashed(data, collisions)
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
