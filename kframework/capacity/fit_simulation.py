"""The simulations in which `fit` tries a workload: on a cluster at rest, by the pod engine or by another one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from kframework.capacity.fit_result import Obstacle
from kframework.capacity.workload import CopiedKinds
from kframework.core.engine import Engine
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import watched_kinds
from kframework.explain.explanation import Explanation
from kframework.in_memory.kubelet import Kubelet
from kframework.in_memory.recreation import create_recreation
from kframework.objects import ApiObject, CronJob, Pod
from kframework.observe.recording.engines import EngineKind
from kframework.simulation.controllers import STANDARD_CONTROLLERS, ControllerFactory
from kframework.simulation.simulation import Simulation
from kframework.simulation.timetable import ARRIVES_SECONDS, DOWN_SECONDS, read_timetable

E = TypeVar("E", bound=Engine)
T = TypeVar("T", bound=ApiObject)

#: The annotations of what happens later.
_SCHEDULED = frozenset({ARRIVES_SECONDS, DOWN_SECONDS})


class EndlessKubelet(Kubelet):
    """Lets pods run without an end, whatever their annotations say."""

    def _schedule_end_of_run(self, pod: Pod, started: float) -> None:
        pass


#: The controllers of a cluster at rest, in which no pod ends by itself.
CONTROLLERS_AT_REST: Sequence[ControllerFactory] = (
    EndlessKubelet,
    *(each for each in STANDARD_CONTROLLERS if each is not Kubelet),
)
#: Those of a `FitSimulation`, where evicted pods are recreated.
FIT_CONTROLLERS: Sequence[ControllerFactory] = (*CONTROLLERS_AT_REST, create_recreation)


def at_rest(objects: Iterable[ApiObject]) -> Sequence[ApiObject]:
    """Return a cluster in which no time passes: nothing fails or arrives, and no job starts by the clock."""
    return [_at_rest(each) for each in read_timetable(objects).initial if not isinstance(each, CronJob)]


def _at_rest(subject: T) -> T:
    annotations = subject.metadata.annotations
    if annotations.keys().isdisjoint(_SCHEDULED):
        return subject
    annotations = {key: value for key, value in annotations.items() if key not in _SCHEDULED}
    return replace(subject, metadata=replace(subject.metadata, annotations=annotations))


class TrialEviction(NamedTuple):
    """A pod, `namespace/name`, that was evicted from a node for another pod, or for a job."""

    pod: str
    evicted_for: str
    was_on: str


class FitSimulation(ABC, Generic[E]):
    """A simulation of a cluster at rest, and what its engine says of a workload that is tried in it.

    Attributes:
        copied_kinds: the kinds from which controllers of the engine create pods, each with a function that returns an
            object of the kind whose pods evict no others.
        copies_at_once: the number of copies that are created before the next run; the engine must schedule them in the
            order in which they were created.
    """

    copied_kinds: ClassVar[CopiedKinds] = {}
    copies_at_once: ClassVar[int] = 1

    def __init__(self, simulation: Simulation[E]) -> None:
        self.simulation: Simulation[E] = simulation

    @abstractmethod
    def evictions(self) -> Iterator[TrialEviction]:
        """Yield all evictions so far, in order."""

    @abstractmethod
    def find_obstacle(self, namespace: str, name: str) -> Obstacle:
        """Find out why a pod has no node, or an object of `copied_kinds` no pods."""


class SimulatedEngineKind(EngineKind[E]):
    """A kind of engine that `fit` can ask."""

    @abstractmethod
    def create_fit_simulation(self, objects: Iterable[ApiObject], config: str | None) -> FitSimulation[E]:
        """Create a simulation of objects with `FIT_CONTROLLERS` and a configuration file of the engine."""

    def watched_kinds(self, config: str | None) -> list[type[ApiObject]]:
        """Return the kinds that the engine and its plugins watch with this configuration file."""
        with self.create_fit_simulation((), config).simulation as simulation:
            engine = simulation.scheduler.engine
            return [*watched_kinds(engine.profiles), *(watch.kind for watch in engine.watches)]


class PodFitSimulation(FitSimulation[PodEngine]):
    """A simulation of the pod engine."""

    copies_at_once: ClassVar[int] = 500

    def evictions(self) -> Iterator[TrialEviction]:
        for decision in self.simulation.preemptions:
            for victim in decision.victims:
                yield TrialEviction(victim, decision.pod, decision.nominated or "")

    def find_obstacle(self, namespace: str, name: str) -> Obstacle:
        explanation: Explanation = self.simulation.explain(f"{namespace}/{name}").explanation
        gate = "" if explanation.waiting is None else explanation.waiting.why
        return Obstacle(
            pod=explanation.pod,
            message=explanation.condition or gate or explanation.assessment.message,
            reasons=dict(explanation.assessment.reasons),
            remedies=explanation.remedies if explanation.group is None else explanation.group.remedies,
        )
