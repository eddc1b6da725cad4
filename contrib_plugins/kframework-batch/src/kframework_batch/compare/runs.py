"""A trace of jobs, and its runs through both engines: on the same nodes, with the same controllers, on virtual time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import process_time
from typing import ClassVar, TypeVar

from kframework import Plugin, Simulation, Watch
from kframework.engine import Configuration, Engine
from kframework.objects import ApiObject, Node, Pod, on_node_requests
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework_batch.compare.measures import Measures, ShareHistory, measure
from kframework_batch.compare.timeline import RunTimeline, gang_of
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.objects import Job, PodGroup, Queue
from kframework_batch.resource import Resource
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation

E = TypeVar("E", bound=Engine)


@dataclass(frozen=True)
class Trace:
    """The objects of a cluster file, also those that arrive later."""

    objects: tuple[ApiObject, ...]

    @property
    def capacity(self) -> Resource:
        total = Resource()
        for obj in self.objects:
            if isinstance(obj, Node):
                total.add(Resource.parse(obj.status.allocatable or obj.status.capacity))
        return total

    @property
    def scarcest(self) -> str:
        """The resource with the highest demand relative to the capacity, `cpu` if nothing is requested."""
        wanted, capacity = Resource(), self.capacity
        for obj in self.objects:
            if isinstance(obj, Job):
                wanted.add(gang_of(obj).wanted)
            elif isinstance(obj, Pod):
                wanted.add(on_node_requests(obj))
        parts = {name: amount / capacity[name] for name, amount in wanted.items() if capacity.get(name)}
        return max(parts, key=lambda name: parts[name], default="cpu")


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
    simulation = create_simulation(trace.objects, settings, observers=[timeline])
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
        controllers=[*STANDARD_CONTROLLERS, *settings.controller_factories(simulated=True), AdmitAllGroups],
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
