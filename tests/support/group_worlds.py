"""Random worlds of groups: what happens in all of them, what holds in each, and faults that their checks must find."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from random import Random
from typing import ClassVar, TypeVar

import pytest
from msgspec.structs import replace

from kframework import ClusterError, Simulation, Status
from kframework.config.configuration import Configuration
from kframework.core.groups.walk import WalkedPod
from kframework.core.queue.group_queue import GroupQueue
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, Pod
from kframework.state.pods import QueuedPod

#: For how long it is quiet after the trouble: longer than any backoff, but not so long that pods are tried again
#: without an event.
QUIET = 60.0


class GroupWorld(ABC):
    """Objects that come and go by chance, under a scheduler whose bindings are refused by chance."""

    config: ClassVar[Configuration]
    #: For how many seconds objects come, go and are refused, and how often a binding is refused then.
    trouble: ClassVar[int]
    refused: ClassVar[float]

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        #: The pods of each group that were bound, whether or not they were deleted since.
        self.bound: dict[str, set[str]] = {}
        self.singles = 0
        self.simulation = self.new_simulation(self.objects(), seed)
        self.simulation.cluster.faults.append(self.fault)

    def new_simulation(self, objects: list[ApiObject], seed: int) -> Simulation:
        return Simulation(objects, config=self.config, seed=seed)

    @abstractmethod
    def objects(self) -> list[ApiObject]:
        """Return what is there from the start."""

    @abstractmethod
    def change(self) -> None:
        """Create or delete something."""

    @abstractmethod
    def check_queue(self) -> None:
        """Check that each pod that waits is in one queue."""

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method == "bind" and self.simulation.seconds < self.trouble and self.random.random() < self.refused:
            return Fault(error=ClusterError("refused", status=403), delay=self.random.choice((0.0, 0.5)))
        return None

    def run(self) -> None:
        for _ in range(self.trouble):
            for _ in range(self.random.randint(0, 2)):
                self.change()
            self.simulation.run(1.0)
            self.watch()
            self.check_queue()
        self.simulation.run(QUIET)
        self.watch()

    def watch(self) -> None:
        for pod in self.simulation.objects(Pod):
            group = pod.spec.scheduling_group
            if group is not None and pod.spec.node_name:
                self.bound.setdefault(group.pod_group_name or "", set()).add(pod.metadata.name)

    def check_end(self) -> None:
        engine = self.simulation.scheduler.engine
        self.check_queue()
        assert not engine.cluster.assumed and not engine.cluster.statements and not len(engine.queue.in_flight)

    def check_no_wake_up_was_lost(self) -> None:
        """Check that what waits for events would not fit: nothing changes if all is tried again."""
        before = len(self.simulation.bindings)
        self.simulation.run(700.0)
        assert len(self.simulation.bindings) == before

    def decisions(self) -> list[tuple[str, str | None]]:
        return [(each.pod, each.node) for each in self.simulation.decisions]


World = TypeVar("World", bound=GroupWorld)


def peaceful(pod: Pod) -> Pod:
    """Return the pod as one that evicts no other, which might leave a gang in part."""
    return replace(pod, spec=replace(pod.spec, preemption_policy="Never"))


def checked(world: World) -> World:
    """Run a world, and check it."""
    world.run()
    world.check_end()
    world.check_no_wake_up_was_lost()
    return world


def failures(new_world: Callable[[int], GroupWorld]) -> Iterator[str]:
    """Yield what the checks of twenty worlds find."""
    for seed in range(20):
        try:
            checked(new_world(seed))
        except AssertionError as problem:
            yield str(problem) or "unnamed"


# -- faults to plant ---------------------------------------------------------------------------------------------------


def keep_the_room_of_a_rejected_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WalkedPod, "undo", lambda member: None)


def ignore_the_minimum(patch: pytest.MonkeyPatch) -> None:
    def feasible(*about: object) -> Status | None:
        return None

    patch.setattr("kframework.core.groups.walk.run_placement_feasible", feasible)


def lose_pods_whose_binding_failed(patch: pytest.MonkeyPatch) -> None:
    def lose(queue: GroupQueue, root: object, member: QueuedPod) -> None: ...

    patch.setattr(GroupQueue, "_put_back_unbound", lose)
