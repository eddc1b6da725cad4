"""The objects that a question about capacity is about, copies of them, and the pods that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kframework.core.engine import Engine
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    CronJob,
    Job,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PodSchedulingGroup,
    PodStatus,
    ReplicaSet,
    ResourceClaim,
)
from kframework.objects.codec import convert
from kframework.objects.kinds import kind_of
from kframework.simulation.controllers import WORKLOADS
from kframework.simulation.simulation import Simulation

E = TypeVar("E", bound=Engine)

#: Kinds that pods come from, each with a function that returns an object of the kind whose pods evict no others.
CopiedKinds = Mapping[type[ApiObject], Callable[[ApiObject], ApiObject]]


def _pod_without_preemption(pod: ApiObject) -> ApiObject:
    assert isinstance(pod, Pod)
    return replace(pod, spec=replace(pod.spec, preemption_policy="Never"))


def _workload_without_preemption(workload: ApiObject) -> ApiObject:
    assert isinstance(workload, WORKLOADS)
    template = workload.spec.template
    template = replace(template, spec={**template.spec, "preemptionPolicy": "Never"})
    return replace(workload, spec=replace(workload.spec, template=template))


#: The groups that pods name come first.
_COPIED_KINDS: CopiedKinds = {
    PodGroup: lambda group: group,
    CompositePodGroup: lambda group: group,
    Pod: _pod_without_preemption,
    **dict.fromkeys(WORKLOADS, _workload_without_preemption),
}


class Workload:
    """What is to be scheduled: pods, their groups, and objects with a template of pods; other objects go with them.

    A CronJob counts as one of its jobs. `kinds` are additional ones that pods come from.
    """

    def __init__(self, objects: Iterable[ApiObject], kinds: CopiedKinds | None = None) -> None:
        self._kinds = {**_COPIED_KINDS, **(kinds or {})}
        objects = [_job_of(each) if isinstance(each, CronJob) else each for each in objects]
        self._others = [each for each in objects if type(each) not in self._kinds]
        self._copied = [each for kind in self._kinds for each in objects if type(each) is kind]
        #: What copies are made of. They share their parts, and checks of a part are cached.
        self._originals = [self._kinds[type(each)](each) for each in self._copied]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is scheduled, as `deployment/web`; those of groups instead of their pods."""
        groups = {each.metadata.name for each in self._copied if isinstance(each, PodGroup)}
        named = [each for each in self._copied if not (isinstance(each, Pod) and _group_of(each) in groups)]
        return tuple(f"{kind_of(each).name.lower()}/{each.metadata.name}" for each in named)

    @property
    def others(self) -> Sequence[ApiObject]:
        """The objects that no pods come from, such as classes and templates of claims."""
        return self._others

    def create(self, simulation: Simulation[E]) -> list[ApiObject]:
        """Create the objects, and return those that pods come from; ClusterError for a refused one."""
        for each in self._others:
            simulation.create(each)
        return [simulation.create(each) for each in self._copied]

    def create_copy(self, simulation: Simulation[E], number: int) -> list[ApiObject]:
        """Create them again under other names, for the copy of a number; copies evict no pods."""
        names = {each.metadata.name: f"{each.metadata.name}-copy-{number}" for each in self._copied}
        return [simulation.create(_renamed(each, names)) for each in self._originals]


def _job_of(cron_job: CronJob) -> Job:
    template = cron_job.spec.job_template
    metadata = replace(template.metadata, name=cron_job.metadata.name, namespace=cron_job.metadata.namespace)
    return Job(metadata=metadata, spec=convert({"spec": template.spec}, kind_of(Job)).spec)


def _renamed(subject: ApiObject, names: Mapping[str, str]) -> ApiObject:
    metadata = replace(subject.metadata, name=names[subject.metadata.name], uid="", resource_version="")
    if isinstance(subject, Pod) and _group_of(subject) in names:
        group = PodSchedulingGroup(pod_group_name=names[_group_of(subject)])
        subject = replace(subject, spec=replace(subject.spec, scheduling_group=group))
    return replace(subject, metadata=metadata)


def _group_of(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""


class ExpandedWorkload(NamedTuple):
    """The pods of a workload, and the claims of these pods, as controllers create them."""

    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...]
    volume_claims: tuple[PersistentVolumeClaim, ...]


def expand(objects: Iterable[ApiObject]) -> ExpandedWorkload:
    """Create the pods of a workload and their claims; ClusterError for a refused object."""
    with Simulation([]) as simulation:
        origins = Origins(simulation.cluster)
        origins.add(Workload(objects).create(simulation), 1)
        simulation.run()
        pods = (pod for _, pod in origins.pods())
        return ExpandedWorkload(
            tuple(replace(pod, status=_claims_of(pod.status)) for pod in pods),
            tuple(simulation.objects(ResourceClaim)),
            tuple(simulation.objects(PersistentVolumeClaim)),
        )


def _claims_of(status: PodStatus) -> PodStatus:
    return PodStatus(resource_claim_statuses=status.resource_claim_statuses)


class Origins:
    """Which copy of a workload each pod comes from, by the owners of the pods."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._copies: dict[str, int] = {}
        self._pods: list[tuple[int, Pod]] = []  # as they were created
        self._created: list[ReplicaSet | Job | Pod] = []  # not looked at yet
        cluster.subscribe((ReplicaSet, Job, Pod), self._receive)

    def _receive(self, change: Change) -> None:
        if change.old is None:
            assert isinstance(change.new, ReplicaSet | Job | Pod)
            self._created.append(change.new)

    def add(self, created: Iterable[ApiObject], copy: int) -> None:
        """Note what was created as a copy."""
        self._copies.update((each.metadata.uid, copy) for each in created)

    def pods(self) -> Iterator[tuple[int, Pod]]:
        """Yield the pods that come from copies, in the order of creation, with the number of the copy."""
        self._find_origins()
        return self._current(self._pods)

    def new_pods(self) -> Iterator[tuple[int, Pod]]:
        """Yield those that were created since the last look."""
        known = len(self._pods)
        self._find_origins()
        return self._current(self._pods[known:])

    def _find_origins(self) -> None:
        for each in self._created:
            uid, owner = each.metadata.uid, each.metadata.controlling_owner
            if owner is not None and owner.uid in self._copies:
                self._copies[uid] = self._copies[owner.uid]
            if isinstance(each, Pod) and uid in self._copies:
                self._pods.append((self._copies[uid], each))
        self._created.clear()

    def _current(self, pods: Iterable[tuple[int, Pod]]) -> Iterator[tuple[int, Pod]]:
        for copy, created in pods:
            metadata = created.metadata
            pod = self._cluster.find(Pod, metadata.name, metadata.namespace)
            if pod is not None and pod.metadata.uid == metadata.uid:
                yield copy, pod


def pod_key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
