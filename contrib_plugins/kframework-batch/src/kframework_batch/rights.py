"""The rights that a batch scheduler needs in its cluster, and no others, as RBAC objects."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.clock import SystemClock
from kframework.config.reading import LeaderElection
from kframework.engine import MemoryCluster, Scheduler
from kframework.process.running import manifests
from kframework_batch.settings import MakeController, Settings


def rights(
    settings: Settings, controllers: Iterable[MakeController], election: LeaderElection, *, name: str, namespace: str
) -> list[dict[str, object]]:
    """Return the objects that grant the rights to the ServiceAccount of this name and namespace; their name is its.

    `controllers` are those that work beside the scheduler, on the same account.
    """
    clock = SystemClock()
    cluster = MemoryCluster(clock)
    scheduler = Scheduler(settings.configuration, cluster, clock, registry=settings.registry, engine=settings.engine())
    watches = [*scheduler.engine.watches]
    for make in controllers:
        watches += make(cluster, clock).watches
    return manifests(scheduler.profiles, election, watches=watches, name=name, namespace=namespace)
