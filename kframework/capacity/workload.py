"""The objects that a question about capacity is about, copies of them, and the pods that they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    CronJob,
    Job,
    ObjectMeta,
    Pod,
    PodGroup,
    PodSchedulingGroup,
    PodStatus,
    ReplicaSet,
)
from kframework.objects.kinds import kind_of
from kframework.simulation.controllers import WORKLOADS
from kframework.simulation.simulation import Simulation
from kframework.simulation.timetable import ARRIVES_SECONDS, DOWN_SECONDS, read_timetable

T = TypeVar("T", bound=ApiObject)

#: The annotations of what happens later.
_SCHEDULED = frozenset({RUN_SECONDS, ARRIVES_SECONDS, DOWN_SECONDS})
#: The groups that pods name, which are copied with them.
_GROUPS = (PodGroup, CompositePodGroup)


class Workload:
    """What is to be scheduled: pods, their groups, and objects with a template of pods; other objects go with them."""

    def __init__(self, objects: Iterable[ApiObject]) -> None:
        objects = list(objects)
        self._others = [each for each in objects if not isinstance(each, (Pod, *WORKLOADS, *_GROUPS))]
        self._copied: list[ApiObject] = [each for each in objects if isinstance(each, _GROUPS)]
        self._copied += [each for each in objects if isinstance(each, (Pod, *WORKLOADS))]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is scheduled, as `deployment/web`; those of groups instead of their pods."""
        groups = {each.metadata.name for each in self._copied if isinstance(each, PodGroup)}
        named = [each for each in self._copied if not (isinstance(each, Pod) and _group_of(each) in groups)]
        return tuple(f"{kind_of(each).name.lower()}/{each.metadata.name}" for each in named)

    def create(self, simulation: Simulation) -> list[str]:
        """Create the objects, and return the uids of those that pods come from; ClusterError for a refused one."""
        for each in self._others:
            simulation.create(each)
        return [simulation.create(each).metadata.uid for each in self._copied]

    def create_copy(self, simulation: Simulation, number: int) -> list[str]:
        """Create them again under other names, for the copy of a number; copies evict no pods."""
        renamed = {each.metadata.name: f"{each.metadata.name}-copy-{number}" for each in self._copied}
        return [simulation.create(_renamed(each, renamed)).metadata.uid for each in self._copied]


def _renamed(subject: T, names: Mapping[str, str]) -> T:
    """Return a copy of an object under another name, whose pods evict no others."""
    metadata = replace(subject.metadata, name=names[subject.metadata.name], uid="", resource_version="")
    if isinstance(subject, Pod):
        spec = replace(subject.spec, preemption_policy="Never")
        if _group_of(subject) in names:
            spec = replace(spec, scheduling_group=PodSchedulingGroup(pod_group_name=names[_group_of(subject)]))
        subject = replace(subject, spec=spec)
    elif isinstance(subject, WORKLOADS):
        template = subject.spec.template
        template = replace(template, spec={**template.spec, "preemptionPolicy": "Never"})
        subject = replace(subject, spec=replace(subject.spec, template=template))
    return replace(subject, metadata=metadata)


def _group_of(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


def expand(objects: Iterable[ApiObject]) -> tuple[Pod, ...]:
    """Return the pods of a workload as its controllers create them; ClusterError for a refused object."""
    origins = Origins()
    with Simulation([]) as simulation:
        origins.add(Workload(objects).create(simulation), 1)
        return tuple(replace(pod, status=PodStatus()) for _, pod in origins.pods(simulation.run()))


class Origins:
    """Which copy of a workload each pod comes from, by the owners of the pods."""

    def __init__(self) -> None:
        self._copies: dict[str, int] = {}

    def add(self, uids: Iterable[str], copy: int) -> None:
        """Note what was created as a copy."""
        self._copies.update(dict.fromkeys(uids, copy))

    def pods(self, simulation: Simulation) -> Iterator[tuple[int, Pod]]:
        """Yield the pods that come from copies, with the number of the copy."""
        for kind in (ReplicaSet, Job):
            for each in simulation.objects(kind):
                self._inherit(each.metadata)
        for pod in simulation.objects(Pod):
            self._inherit(pod.metadata)
            if pod.metadata.uid in self._copies:
                yield self._copies[pod.metadata.uid], pod

    def _inherit(self, metadata: ObjectMeta) -> None:
        owner = metadata.controlling_owner
        if owner is not None and owner.uid in self._copies:
            self._copies[metadata.uid] = self._copies[owner.uid]


def pod_key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def at_rest(objects: Iterable[ApiObject]) -> Sequence[ApiObject]:
    """Return a cluster in which no time passes: nothing ends, fails or arrives, and no job starts by the clock."""
    return [_at_rest(each) for each in read_timetable(objects).initial if not isinstance(each, CronJob)]


def _at_rest(subject: T) -> T:
    annotations = subject.metadata.annotations
    if annotations.keys().isdisjoint(_SCHEDULED):
        return subject
    annotations = {key: value for key, value in annotations.items() if key not in _SCHEDULED}
    return replace(subject, metadata=replace(subject.metadata, annotations=annotations))
