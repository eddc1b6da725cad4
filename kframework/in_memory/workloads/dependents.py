"""What controllers own: found by the owner's uid, adopted and released by its selector."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec.structs import replace

from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.control_loop import Key
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    DaemonSet,
    Deployment,
    Job,
    ObjectMeta,
    OwnerReference,
    PodTemplate,
    kind_of,
    reference,
)
from kframework.objects.kinds import T
from kframework.objects.label_selectors import NOTHING, Selector, SelectorError, label_selector
from kframework.objects.meta import LabelSelector

_log = logging.getLogger(__name__)

#: What owns others by a selector.
Workload = TypeVar("Workload", DaemonSet, Deployment, Job)


class Dependents(Generic[T]):
    """The objects of a kind by who controls them, and by their namespace those that nobody does."""

    def __init__(self, cluster: MemoryCluster, kind: type[T]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._of: dict[str, dict[Key, None]] = {}  # by the uid of the controller, or the namespace of orphans

    def file(self, change: Change) -> None:
        """Take down who controls an object now."""
        for subject in (change.old, change.new):
            if subject is not None:
                place, key = _place(subject.metadata), key_of(subject)
                if subject is change.new:
                    self._of.setdefault(place, {})[key] = None
                elif place in self._of:
                    self._of[place].pop(key, None)
                    if not self._of[place]:
                        del self._of[place]

    def touched(self, change: Change, owners: type[Workload]) -> Iterator[Key]:
        """Take down who controls an object now; name the owners that it has or had, and those that may adopt it."""
        self.file(change)
        yield from touched_owners(change, kind_of(owners).name)
        if change.new is not None and is_orphan(change.new):
            metadata = change.new.metadata
            for each in self._cluster.objects(owners, metadata.namespace):
                if selector_of(each.spec.selector).matches(metadata.labels):
                    yield key_of(each)

    def of(self, owner: ApiObject) -> list[T]:
        """List what an object controls."""
        return list(self._found(owner.metadata.uid))

    def claimed(
        self,
        owner: ApiObject,
        selector: Selector,
        may_be_adopted: Callable[[T], bool],
        finalizers: tuple[str, ...] = (),
    ) -> list[T]:
        """List what an object controls after it has taken what its selector matches, and let go what it does not.

        What it takes gets its finalizers.
        """
        mine = []
        deleted = owner.metadata.deletion_timestamp is not None
        for each in self.of(owner):
            if selector.matches(each.metadata.labels) or deleted:
                mine.append(each)
            else:
                self._cluster.replace(_released(each, owner.metadata.uid))
        if deleted:
            return mine
        for each in list(self._found(owner.metadata.namespace)):
            adoptable = each.metadata.deletion_timestamp is None and may_be_adopted(each)
            if adoptable and selector.matches(each.metadata.labels):
                mine.append(self._cluster.replace(_adopted(each, owner, finalizers)))
        return mine

    def _found(self, place: str) -> Iterator[T]:
        for namespace, name in [*self._of.get(place, ())]:
            found = self._cluster.find(self._kind, name, namespace)
            if found is not None:
                yield found


def controller_of(subject: ApiObject) -> OwnerReference | None:
    """Return the owner that controls an object, if one does."""
    return next((each for each in subject.metadata.owner_references if each.controller), None)


def owner_reference(owner: ApiObject) -> OwnerReference:
    """Name an object as the one that controls another."""
    kind, metadata = kind_of(owner), owner.metadata
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.name,
        name=metadata.name,
        uid=metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def touched_owners(change: Change, kind: str) -> Iterator[Key]:
    """Name the owners of a kind that an object had before a change or has after it."""
    for subject in (change.old, change.new):
        owner = controller_of(subject) if subject is not None else None
        if subject is not None and owner is not None and owner.kind == kind:
            yield subject.metadata.namespace, owner.name


def is_orphan(subject: ApiObject | None) -> bool:
    """Return whether there is an object that nobody controls."""
    return subject is not None and controller_of(subject) is None


def selector_of(selector: LabelSelector | None) -> Selector:
    """Compile a selector; one that is absent, empty or cannot be read matches nothing."""
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return NOTHING
    try:
        return label_selector(selector)
    except SelectorError:
        return NOTHING


def makes_pods(owner: ApiObject, template: PodTemplate, selector: Selector) -> bool:
    """Return whether a workload has a template, and selects the pods that it would make of it: else there is no end."""
    if not template.spec:
        return False
    if not selector.matches(template.metadata.labels):
        _log.warning("%s is passed over: its selector does not match the labels of its template", reference(owner))
        return False
    return True


def key_of(subject: ApiObject) -> Key:
    """Return namespace and name of an object."""
    return subject.metadata.namespace, subject.metadata.name


def _place(metadata: ObjectMeta) -> str:
    return next((each.uid for each in metadata.owner_references if each.controller), metadata.namespace)


def _adopted(subject: T, owner: ApiObject, finalizers: tuple[str, ...]) -> T:
    metadata = subject.metadata
    owners = (*metadata.owner_references, owner_reference(owner))
    added = tuple(each for each in finalizers if each not in metadata.finalizers)
    return replace(subject, metadata=replace(metadata, owner_references=owners, finalizers=metadata.finalizers + added))


def _released(subject: T, uid: str) -> T:
    rest = tuple(each for each in subject.metadata.owner_references if each.uid != uid)
    return replace(subject, metadata=replace(subject.metadata, owner_references=rest))
