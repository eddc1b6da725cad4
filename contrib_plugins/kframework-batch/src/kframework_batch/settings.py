"""The parts of a batch scheduler, for a cluster or a simulation of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from random import SystemRandom

from kframework import Clock
from kframework.clock import Seeds, SystemClock
from kframework.engine import (
    Cluster,
    Configuration,
    EngineFactory,
    LeaderElectionSettings,
    MemoryCluster,
    Scheduler,
    manifests,
)
from kframework_batch.controllers.controller import Reconciler
from kframework_batch.controllers.jobs import VolcanoJobController
from kframework_batch.controllers.pod_groups import PodGroupController
from kframework_batch.controllers.queues import QueueController
from kframework_batch.engine import SCHEDULE_PERIOD, SCHEDULER_NAME, BatchEngine
from kframework_batch.program import Program, core_configuration, core_registry
from kframework_batch.queue import DEFAULT_QUEUE

#: Makes a controller for a cluster.
ControllerFactory = Callable[[Cluster, Clock], Reconciler]


@dataclass(frozen=True)
class ProgramSettings:
    """A program, and whom it is for.

    `scheduler_names` are those whose pods are scheduled; jobs and pods that name no queue are in `default_queue`.
    `period` is the time from one session to the next in seconds, `seed` where all chance begins.
    """

    program: Program
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    default_queue: str = DEFAULT_QUEUE
    period: float = SCHEDULE_PERIOD
    seed: int = 0

    @cached_property
    def configuration(self) -> Configuration:
        return core_configuration(self.program, self.scheduler_names, seed=self.seed)

    def engine_factory(self) -> EngineFactory[BatchEngine]:
        return BatchEngine.factory(self.program, self.period, self.default_queue)

    def controller_factories(self, *, simulated: bool = False) -> tuple[ControllerFactory, ...]:
        """Return the controllers that make pods of jobs, groups of plain pods, and the default queue.

        The keys of jobs are unpredictable, except in a simulation, where all chance begins with the seed.
        """
        chance = Seeds(self.seed).generator("keys of jobs") if simulated else SystemRandom()
        first, names = self.scheduler_names[0], frozenset(self.scheduler_names)
        return (
            lambda cluster, clock: VolcanoJobController(cluster, clock, first, self.default_queue, chance),
            lambda cluster, clock: PodGroupController(cluster, clock, names, self.default_queue),
            lambda cluster, clock: QueueController(cluster, clock, self.default_queue),
        )


def role_manifests(
    settings: ProgramSettings,
    controllers: Iterable[ControllerFactory],
    election: LeaderElectionSettings,
    *,
    name: str,
    namespace: str,
) -> list[dict[str, object]]:
    """Return the objects that grant the rights to the ServiceAccount of this name and namespace; their name is its.

    `controllers` are those that run in the scheduler's process, on the same account.
    """
    clock = SystemClock()
    cluster = MemoryCluster(clock)
    scheduler = Scheduler(
        settings.configuration, cluster, clock, registry=core_registry(), engine=settings.engine_factory()
    )
    made = [make(cluster, clock) for make in controllers]
    watches = [*scheduler.engine.watches, *(watch for controller in made for watch in controller.watches)]
    reads = [read for controller in made for read in controller.reads]
    return manifests(scheduler.profiles, election, watches=watches, reads=reads, name=name, namespace=namespace)
