"""The revisions of stateful sets and daemon sets: each template that they have had, as a patch that brings it back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, NamedTuple, TypeVar

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.workloads.dependents import Dependents, owner_reference, selector_of
from kframework.in_memory.workloads.revisions import hashed
from kframework.objects import ControllerRevision, DaemonSet, ObjectMeta, PodTemplate, StatefulSet

#: The label of pods that says of which revision they are.
REVISION_LABEL = "controller-revision-hash"
_HASH_LABELS = {StatefulSet: "controller.kubernetes.io/hash", DaemonSet: REVISION_LABEL}

#: How many revisions without pods are kept, unless the workload says it.
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
        data, collisions = _patch(owner.spec.template), owner.status.collision_count or 0
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
        """Delete the oldest revisions of which there are no pods, but for those that the history keeps."""
        limit = owner.spec.revision_history_limit
        past = [each for each in history.every if each.metadata.name not in alive and each is not history.update]
        for each in past[: max(0, len(past) - (_HISTORY if limit is None else limit))]:
            metadata = each.metadata
            self._cluster.remove(ControllerRevision, metadata.name, metadata.namespace, uid=metadata.uid)


def template_of(revision: ControllerRevision) -> PodTemplate:
    """Return the template of a revision; an empty one if somebody has made something else of it."""
    spec = revision.data.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    try:
        return convert(template, PodTemplate)
    except ValidationError:
        return PodTemplate()


def hash_of(revision: ControllerRevision) -> str:
    """Return the end of a revision's name."""
    return revision.metadata.name.rpartition("-")[2]


def _patch(template: PodTemplate) -> dict[str, object]:
    return {"spec": {"template": {"$patch": "replace", **to_builtins(template)}}}


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
