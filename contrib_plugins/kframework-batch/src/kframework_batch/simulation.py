"""Simulations of sessions: on a cluster in memory, on virtual time, with the controllers that make pods of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kframework import Simulation
from kframework.engine import EngineFactory, MemoryCluster, Observer
from kframework.objects import ApiObject, Pod
from kframework.simulation.controllers import STANDARD_CONTROLLERS, ControllerFactory
from kframework.simulation.records import Progress
from kframework_batch.engine import BatchEngine
from kframework_batch.objects import Job, PodGroup
from kframework_batch.program import core_registry
from kframework_batch.settings import ProgramSettings


def create_simulation(
    objects: Iterable[ApiObject],
    settings: ProgramSettings,
    *,
    observers: Iterable[Observer] = (),
    on_progress: Callable[[Progress], None] = lambda progress: None,
    engine: EngineFactory[BatchEngine] | None = None,
    timed_share: float = 0.0,
    controllers: Iterable[ControllerFactory] = (),
    kubernetes_controllers: Iterable[ControllerFactory] = STANDARD_CONTROLLERS,
) -> Simulation[BatchEngine]:
    """Create a simulation of sessions that schedule the jobs and pods among these objects.

    `engine` creates one that is recorded, and `controllers` run in addition to those of jobs, pod groups and queues.
    """
    return Simulation(
        objects,
        settings.configuration,
        registry=core_registry(),
        observers=observers,
        on_progress=on_progress,
        engine=engine or settings.engine_factory(),
        timed_share=timed_share,
        controllers=(
            *kubernetes_controllers,
            *settings.controller_factories(simulated=True),
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
