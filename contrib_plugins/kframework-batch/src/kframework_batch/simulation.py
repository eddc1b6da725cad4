"""Simulations of sessions: on a cluster in memory, on virtual time, with the controllers that make pods of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from kframework import InputError, Simulation
from kframework.engine import EngineFactory, MemoryCluster, Observer
from kframework.objects import ApiObject, Pod
from kframework.simulation.controllers import STANDARD_CONTROLLERS, ControllerFactory
from kframework.simulation.records import Progress
from kframework.simulation.running import Script
from kframework.testing import create
from kframework_batch.engine import BatchEngine
from kframework_batch.objects import Job, PodGroup
from kframework_batch.program import core_registry
from kframework_batch.settings import ProgramSettings

#: The annotation of a Job with the second of the simulation at which it is created; the others are there at the start.
ARRIVES_SECONDS = "kframework.dev/arrives-seconds"

#: Jobs with the seconds of their arrival, in that order.
Arrivals = Sequence[tuple[float, Job]]


def split_arrivals(objects: Iterable[ApiObject]) -> tuple[list[ApiObject], Arrivals]:
    """Separate the jobs that arrive later; InputError for an invalid time of arrival."""
    there: list[ApiObject] = []
    arrivals: list[tuple[float, Job]] = []
    for obj in objects:
        seconds = _arrival(obj)
        if seconds and isinstance(obj, Job):
            arrivals.append((seconds, obj))
        else:
            there.append(obj)
    return there, sorted(arrivals, key=lambda arrival: arrival[0])


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


def arrival_script(arrivals: Arrivals) -> ControllerFactory:
    return partial(Script, actions=[(seconds, create(job)) for seconds, job in arrivals])


def create_simulation(
    objects: Iterable[ApiObject],
    settings: ProgramSettings,
    *,
    observers: Iterable[Observer] = (),
    on_progress: Callable[[Progress], None] = lambda progress: None,
    engine: EngineFactory[BatchEngine] | None = None,
    timed_share: float = 0.0,
    controllers: Iterable[ControllerFactory] = (),
) -> Simulation[BatchEngine]:
    """Create a simulation of sessions that schedule the jobs and pods among these objects.

    `engine` creates one that is recorded, and `controllers` run in addition to those of jobs, pod groups and queues.
    """
    there, arrivals = split_arrivals(objects)
    return Simulation(
        there,
        settings.configuration,
        registry=core_registry(),
        observers=observers,
        on_progress=on_progress,
        engine=engine or settings.engine_factory(),
        timed_share=timed_share,
        controllers=(
            *STANDARD_CONTROLLERS,
            *settings.controller_factories(simulated=True),
            *([arrival_script(arrivals)] if arrivals else []),
            *controllers,
        ),
    )


def podless_jobs(cluster: MemoryCluster) -> Iterator[str]:
    """Say of each job in a simulation that was refused, or whose group was not let in, why; a line each."""
    with_pods = {uid for pod in cluster.objects(Pod) for uid in _owners(pod)}
    reasons: dict[str, str] = {}
    for group in cluster.objects(PodGroup):
        # The last session's message for a group that cannot run.
        why = next((each.message for each in group.status.conditions if each.type == "Unschedulable"), "")
        reasons |= dict.fromkeys(_owners(group), why)
    for job in cluster.objects(Job):
        state, uid = job.status.state, job.metadata.uid
        name = f"job {job.metadata.namespace}/{job.metadata.name}"
        if state.phase == "Failed" and uid not in with_pods:
            yield f"{name} was refused: {state.message}"
        elif state.phase in ("", "Pending") and uid not in with_pods:
            yield f"{name} waits without pods: {reasons.get(uid) or 'no session has looked at it yet'}"


def _owners(obj: ApiObject) -> Iterator[str]:
    return (owner.uid for owner in obj.metadata.owner_references)
