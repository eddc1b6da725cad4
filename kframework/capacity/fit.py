"""Whether a workload fits: it is scheduled on a copy of the cluster, with the plugins of the configuration.

First the pods that the cluster has are scheduled until nothing changes any more. Then the workload is created, and
again all runs to its end: what the scheduler does then is the answer. No time passes that would let running pods end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kframework.capacity.fit_result import Copies, DisplacedPod, FitResult, Obstacle, PodPlace
from kframework.capacity.workload import Origins, Workload, at_rest, pod_key
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.programmatic import ConfigurationSource
from kframework.explain.explanation import Explanation
from kframework.framework.plugin import Plugin
from kframework.in_memory.recreation import create_recreation
from kframework.objects import ApiObject, Pod
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.simulation.simulation import Simulation

#: The number of copies that are tried if as many as possible are asked for.
MAX_COPIES = 20_000
#: What becomes of an evicted pod whose controller is simulated, too.
_REPLACED = "its controller replaced it under another name"
#: The number of copies that are created at once.
_BATCH = 500


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
    controllers = (*STANDARD_CONTROLLERS, create_recreation)
    with Simulation(at_rest(cluster), config, plugins=plugins, controllers=controllers) as simulation:
        return FitTrial(simulation.run(), Workload(workload)).run(copies)


class FitTrial:
    """A workload that is scheduled in a simulation of its cluster."""

    def __init__(self, simulation: Simulation[PodEngine], workload: Workload) -> None:
        self._simulation = simulation
        self._workload = workload
        self._origins = Origins()

    def run(self, copies: int) -> FitResult:
        """Create the workload and copies of it, and return what becomes of them."""
        simulation = self._simulation
        preempted = len(simulation.preemptions)
        self._origins.add(self._workload.create(simulation), 1)
        pods = tuple(self._places(simulation.run()))
        stuck = next((each for each in pods if not each.node), None)
        fits = bool(pods) and stuck is None
        return FitResult(
            workload=self._workload.names,
            fits=fits,
            pods=pods,
            evicted=tuple(self._evicted(preempted)),
            obstacle=None if stuck is None else self._obstacle(stuck),
            copies=self._count_copies(copies, len(pods)) if fits and copies > 1 else None,
        )

    def _places(self, simulation: Simulation[PodEngine]) -> Iterator[PodPlace]:
        for _, pod in self._origins.pods(simulation):
            yield PodPlace(pod_key(pod), pod.spec.node_name, "" if pod.spec.node_name else _message(pod))

    def _evicted(self, preempted: int) -> Iterator[DisplacedPod]:
        """Yield the victims of the attempts after the first `preempted` ones that had any."""
        for decision in self._simulation.preemptions[preempted:]:
            for victim in decision.victims:
                namespace, _, name = victim.partition("/")
                again = self._simulation.cluster.find(Pod, name, namespace)
                yield DisplacedPod(
                    pod=victim,
                    evicted_for=decision.pod,
                    was_on=decision.nominated or "",
                    node="" if again is None else again.spec.node_name,
                    message=_REPLACED if again is None else "" if again.spec.node_name else _message(again),
                )

    def _obstacle(self, stuck: PodPlace) -> Obstacle:
        explanation: Explanation = self._simulation.explain(stuck.pod).explanation
        group = explanation.group
        return Obstacle(
            pod=stuck.pod,
            message=stuck.message or _gate(explanation) or explanation.assessment.message,
            reasons=dict(explanation.assessment.reasons),
            remedies=explanation.remedies if group is None else group.remedies,
        )

    def _count_copies(self, copies: int, pods: int) -> Copies:
        """Create copies, each of that many pods, until one has a pod without a node."""
        tried, whole = 1, 1
        while whole == tried < copies:
            batch = range(tried + 1, min(tried + _BATCH, copies) + 1)
            for number in batch:
                self._origins.add(self._workload.create_copy(self._simulation, number), number)
            tried = batch[-1]
            self._simulation.run()
            bound = Counter(copy for copy, pod in self._origins.pods(self._simulation) if pod.spec.node_name)
            whole = next((copy - 1 for copy in range(whole, tried + 1) if bound[copy] < pods), tried)
        if whole == tried:
            return Copies(fit=whole, tried=tried)
        stuck = next(each for each in self._places(self._simulation) if not each.node)
        assessment = self._simulation.explain(stuck.pod).explanation.assessment
        message = assessment.message or stuck.message
        return Copies(fit=whole, tried=tried, message=message, reasons=dict(assessment.reasons))


def _gate(explanation: Explanation) -> str:
    return "" if explanation.waiting is None else explanation.waiting.why


def _message(pod: Pod) -> str:
    """Return why a pod has no node, "" if it was not tried."""
    conditions = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return next((each.message for each in conditions), "")
