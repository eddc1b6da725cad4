"""A trace of jobs, and its runs through both engines: on the same nodes, with the same controllers, on virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import process_time
from typing import ClassVar, TypeVar

from kframework import Clock, InputError, Plugin, Simulation, Watch
from kframework.engine import Configuration, Engine, MemoryCluster
from kframework.objects import ApiObject, Node
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.simulation.running import Script
from kframework.testing import create
from kframework_batch.compare.measures import Measures, ShareHistory, measure
from kframework_batch.compare.timeline import RunTimeline, gang_of
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.objects import Job, PodGroup, Queue
from kframework_batch.resource import Resource
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation

E = TypeVar("E", bound=Engine)

#: Says on a Job when it comes, in seconds since the start; one without it is there from the start.
ARRIVES_SECONDS = "kframework.dev/arrives-seconds"


@dataclass(frozen=True)
class Trace:
    """Jobs with the seconds of their arrival, in that order, and all that is there from the start."""

    objects: tuple[ApiObject, ...]
    arrivals: tuple[tuple[float, Job], ...]

    @classmethod
    def from_objects(cls, objects: Iterable[ApiObject]) -> Trace:
        """Separate the objects that arrive later; InputError for an invalid time of arrival."""
        there: list[ApiObject] = []
        arrivals: list[tuple[float, Job]] = []
        for obj in objects:
            seconds = _arrival(obj)
            if seconds and isinstance(obj, Job):
                arrivals.append((seconds, obj))
            else:
                there.append(obj)
        return cls(tuple(there), tuple(sorted(arrivals, key=lambda arrival: arrival[0])))

    @property
    def capacity(self) -> Resource:
        total = Resource()
        for obj in self.objects:
            if isinstance(obj, Node):
                total.add(Resource.parse(obj.status.allocatable or obj.status.capacity))
        return total

    @property
    def scarcest(self) -> str:
        """The resource with the highest demand relative to the capacity, `cpu` where the jobs request nothing."""
        wanted, capacity = Resource(), self.capacity
        for job in (*self.objects, *(job for _, job in self.arrivals)):
            if isinstance(job, Job):
                wanted.add(gang_of(job).wanted)
        parts = {name: amount / capacity[name] for name, amount in wanted.items() if capacity.get(name)}
        return max(parts, key=lambda name: parts[name], default="cpu")

    def arrival_script(self, cluster: MemoryCluster, clock: Clock) -> Script:
        return Script(cluster, clock, [(seconds, create(job)) for seconds, job in self.arrivals])


class AdmitAllGroups(Reconciler):
    """Admits every pod group at once, in place of sessions: pods are made only of admitted ones."""

    watches: ClassVar[tuple[Watch, ...]] = (Watch(PodGroup, verbs=("patch_status",)),)

    def subjects(self, obj: ApiObject) -> Iterable[str]:
        return (f"{obj.metadata.namespace}/{obj.metadata.name}",)

    async def reconcile(self, subject: str) -> None:
        namespace, name = subject.split("/", 1)
        group = self.mirror.find(PodGroup, name, namespace)
        if group is not None and group.status.phase in ("", "Pending"):
            await self.patch_status(group, {"phase": "Inqueue"})


def run_sessions(trace: Trace, settings: ProgramSettings, duration: float | None) -> tuple[Measures, ShareHistory]:
    timeline = RunTimeline()
    simulation = create_simulation(trace.objects, settings, observers=[timeline], controllers=[trace.arrival_script])
    return _run_and_measure(trace, simulation, timeline, duration)


def run_pods(
    trace: Trace,
    configuration: Configuration,
    plugins: Iterable[type[Plugin]],
    settings: ProgramSettings,
    duration: float | None,
) -> tuple[Measures, ShareHistory]:
    timeline = RunTimeline()
    simulation = Simulation(
        trace.objects,
        configuration,
        plugins=plugins,
        observers=[timeline],
        controllers=[
            *STANDARD_CONTROLLERS,
            *settings.controller_factories(simulated=True),
            AdmitAllGroups,
            trace.arrival_script,
        ],
    )
    return _run_and_measure(trace, simulation, timeline, duration)


def _run_and_measure(
    trace: Trace, simulation: Simulation[E], timeline: RunTimeline, duration: float | None
) -> tuple[Measures, ShareHistory]:
    timeline.follow(simulation.cluster, simulation.clock)
    began = process_time()
    with simulation:
        simulation.run(duration)
    spent = process_time() - began
    resource = trace.scarcest
    return measure(
        timeline,
        resource=resource,
        capacity=trace.capacity.get(resource) or 1,
        weights={obj.metadata.name: obj.spec.weight for obj in trace.objects if isinstance(obj, Queue)},
        duration=duration,
        cpu_seconds=spent,
    )


def _arrival(obj: ApiObject) -> float:
    text = obj.metadata.annotations.get(ARRIVES_SECONDS)
    if text is None:
        return 0.0
    name = f"{obj.metadata.namespace or 'default'}/{obj.metadata.name}"
    if not isinstance(obj, Job):
        raise InputError(f"{name}: {ARRIVES_SECONDS} is an annotation of Jobs only")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise InputError(f"job {name}: {ARRIVES_SECONDS} is {text!r}, not a number of seconds")
    return seconds
