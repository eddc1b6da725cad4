"""The replica sets of a deployment by the templates that it has had: their names, revisions and annotations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kframework.in_memory.workloads.dependents import owner_reference
from kframework.in_memory.workloads.rollout import DESIRED, MAXIMUM, fenceposts, replicas
from kframework.objects import Deployment, LabelSelector, ObjectMeta, PodTemplate, ReplicaSet, WorkloadSpec

#: The label that tells pods of one template from those of another.
TEMPLATE_HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
#: What replica sets do not take over from the annotations of their deployment.
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
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def new_among(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Find the replica set that has the template of the deployment; of several the oldest."""
    template = _without_hash(deployment.spec.template)
    return next((each for each in replica_sets if _without_hash(each.spec.template) == template), None)


def made_for(deployment: Deployment, revision: int) -> ReplicaSet:
    """Make the replica set for a template that has none yet, without pods at first."""
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
    """Give the new replica set what the deployment's annotations say, and its revision if that is a later one."""
    annotations = dict(replica_set.metadata.annotations)
    annotations |= {key: text for key, text in deployment.metadata.annotations.items() if key not in _NOT_TAKEN}
    before = annotations.get(REVISION, "")
    if revision_of(replica_set) < revision:
        annotations[REVISION] = str(revision)
        if before:
            history = annotations.get(_REVISION_HISTORY)
            annotations[_REVISION_HISTORY] = f"{history},{before}" if history else before
    return with_annotations(replica_set, annotations)


def sized(replica_set: ReplicaSet, deployment: Deployment, size: int) -> ReplicaSet:
    """Return a replica set with another number of pods, and word of how many the deployment wants."""
    total = replicas(deployment)
    told = {DESIRED: str(total), MAXIMUM: str(total + fenceposts(deployment)[0])}
    spec = replace(replica_set.spec, replicas=size)
    return with_annotations(replace(replica_set, spec=spec), replica_set.metadata.annotations | told)


def with_annotations(replica_set: ReplicaSet, annotations: dict[str, str]) -> ReplicaSet:
    """Return a replica set with these annotations."""
    return replace(replica_set, metadata=replace(replica_set.metadata, annotations=annotations))


def _without_hash(template: PodTemplate) -> PodTemplate:
    labels = {key: text for key, text in template.metadata.labels.items() if key != TEMPLATE_HASH}
    return replace(template, metadata=replace(template.metadata, labels=labels, creation_timestamp=None))


def hashed(template: object, collisions: int) -> str:
    """Return the hash of a template in the letters of Kubernetes' names; it depends on what it says alone."""
    text = msgspec.json.encode((template, collisions), order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:4])
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))
