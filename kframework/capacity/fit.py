"""Whether a workload fits: it is scheduled on a copy of the cluster, with the plugins of the configuration.

First the pods that the cluster has are scheduled until nothing changes any more. Then the workload is created, and
again all runs to its end: what the scheduler does then is the answer. No time passes that would let running pods end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeVar

from kframework.capacity.fit_result import Copies, DisplacedPod, FitResult, Obstacle, PodPlace
from kframework.capacity.fit_simulation import (
    FIT_CONTROLLERS,
    FitSimulation,
    PodFitSimulation,
    SimulatedEngineKind,
    TrialEviction,
    at_rest,
)
from kframework.capacity.workload import Origins, Workload, pod_key
from kframework.core.engine import Engine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Pod
from kframework.simulation.simulation import Simulation

E = TypeVar("E", bound=Engine)

#: The number of copies that are tried if as many as possible are asked for.
MAX_COPIES = 20_000
#: What becomes of an evicted pod whose controller is simulated, too.
_REPLACED = "its controller replaced it under another name"


def fit(
    cluster: Iterable[ApiObject],
    workload: Iterable[ApiObject],
    config: ConfigurationSource | None = None,
    *,
    plugins: Sequence[type[Plugin]] = (),
    copies: int = 1,
) -> FitResult:
    """Find out whether a workload fits a cluster, whom it evicts, and how many copies of it fit, up to `copies`.

    Copies evict no pods: the first one that would evict some does not fit. Raises ClusterError for objects that
    the cluster refuses.
    """
    cluster = at_rest(cluster)
    with Simulation(cluster, config, plugins=plugins, controllers=FIT_CONTROLLERS) as simulation:
        return _try(PodFitSimulation(simulation), workload, copies)


def fit_by_engine(
    kind: SimulatedEngineKind[E],
    cluster: Iterable[ApiObject],
    workload: Iterable[ApiObject],
    config: str | None = None,
    *,
    copies: int = 1,
) -> FitResult:
    """Find out the same of another engine, with a configuration file of its own."""
    fit_simulation = kind.create_fit_simulation(at_rest(cluster), config)
    with fit_simulation.simulation:
        return _try(fit_simulation, workload, copies)


def _try(fit_simulation: FitSimulation[E], workload: Iterable[ApiObject], copies: int) -> FitResult:
    fit_simulation.simulation.run()
    return FitTrial(fit_simulation, Workload(workload, fit_simulation.copied_kinds)).run(copies)


class FitTrial(Generic[E]):
    """A workload that is scheduled in a simulation of its cluster."""

    def __init__(self, fit_simulation: FitSimulation[E], workload: Workload) -> None:
        self._fit_simulation = fit_simulation
        self._simulation = fit_simulation.simulation
        self._workload = workload
        self._origins = Origins(self._simulation.cluster)
        self._created: list[ApiObject] = []

    def run(self, copies: int) -> FitResult:
        """Create the workload and copies of it, and return what becomes of them."""
        before = sum(1 for _ in self._fit_simulation.evictions())
        self._add(1, self._workload.create(self._simulation))
        self._simulation.run()
        pods = [pod for _, pod in self._origins.pods()]
        stuck = next(self._stuck(pods), None)
        fits = bool(pods) and stuck is None
        return FitResult(
            workload=self._workload.names,
            fits=fits,
            pods=tuple(map(_place, pods)),
            evicted=tuple(map(self._follow, islice(self._fit_simulation.evictions(), before, None))),
            obstacle=None if stuck is None else self._find_obstacle(stuck),
            copies=self._count_copies(copies, len(pods)) if fits and copies > 1 else None,
        )

    def _add(self, copy: int, created: Sequence[ApiObject]) -> None:
        self._origins.add(created, copy)
        self._created += created

    def _stuck(self, pods: Iterable[Pod]) -> Iterator[ApiObject]:
        """Yield the pods without a node, and the objects whose pods the engine does not let be created."""
        yield from (pod for pod in pods if not pod.spec.node_name)
        owners = {each.uid for pod in pods for each in pod.metadata.owner_references}
        for each in self._created:
            if type(each) in self._fit_simulation.copied_kinds and each.metadata.uid not in owners:
                yield each

    def _find_obstacle(self, stuck: ApiObject) -> Obstacle:
        return self._fit_simulation.find_obstacle(stuck.metadata.namespace, stuck.metadata.name)

    def _follow(self, eviction: TrialEviction) -> DisplacedPod:
        namespace, _, name = eviction.pod.partition("/")
        again = self._simulation.cluster.find(Pod, name, namespace)
        node = "" if again is None else again.spec.node_name
        message = _REPLACED if again is None else "" if node else _message(again)
        return DisplacedPod(**eviction._asdict(), node=node, message=message)

    def _count_copies(self, copies: int, pods: int) -> Copies:
        """Create copies, each of that many pods, until one has a pod without a node."""
        tried, whole = 1, 1
        while whole == tried < copies:
            batch = range(tried + 1, min(tried + self._fit_simulation.copies_at_once, copies) + 1)
            for number in batch:
                self._add(number, self._workload.create_copy(self._simulation, number))
            tried = batch[-1]
            self._simulation.run()
            bound = Counter(copy for copy, pod in self._origins.new_pods() if pod.spec.node_name)
            whole = next((copy - 1 for copy in batch if bound[copy] < pods), tried)
        if whole == tried:
            return Copies(fit=whole, tried=tried)
        stuck = next(self._stuck([pod for _, pod in self._origins.pods()]))
        obstacle = self._find_obstacle(stuck)
        message, _, _ = obstacle.message.partition(" preemption: ")  # copies evict no pods
        return Copies(fit=whole, tried=tried, message=message, reasons=obstacle.reasons)


def _place(pod: Pod) -> PodPlace:
    return PodPlace(pod_key(pod), pod.spec.node_name, "" if pod.spec.node_name else _message(pod))


def _message(pod: Pod) -> str:
    """Return why a pod has no node, "" if it was not tried."""
    conditions = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return next((each.message for each in conditions), "")
