"""What a shadow of the default profile costs, beside the cycles that it shadows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeVar

from kframework.config.load import parse
from kframework.core.pod_engine import PodEngine
from kframework.framework.suspendable import Suspendable
from kframework.simulation.simulation import Simulation
from kframework.state.pods import QueuedPod
from kframework.testing import make_node, make_pod

M = TypeVar("M", bound=AbstractContextManager[Any])

_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}, {schedulerName: candidate}]
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
profiles: [{schedulerName: candidate, shadow: default-scheduler, shadowBudget: 1s}]
"""


class MeasuredEngine(PodEngine):
    """Runs its cycles, and the decisions of its shadow, each inside a meter."""

    cycles: ClassVar[AbstractContextManager[Any]]
    shadow: ClassVar[AbstractContextManager[Any]]

    def _cycle(self, queued: QueuedPod) -> Suspendable[None]:
        with self.cycles:
            yield from super()._cycle(queued)

    def apply_messages(self) -> None:
        self._look_back()
        super().apply_messages()

    def apply_some_messages(self, limit: int) -> bool:
        self._look_back()
        return super().apply_some_messages(limit)

    def _look_back(self) -> None:
        if self.follower is not None:
            with self.shadow:
                self.follower.look_back()


def measure_shadow(meter: Callable[[], M], *, nodes: int, warm: int, pods: int) -> tuple[M, M]:
    """Measure the decisions of a shadow on a number of pods, and the cycles that it shadows."""
    objects = [make_node(f"node-{number}", cpu=64) for number in range(nodes)]
    MeasuredEngine.cycles, MeasuredEngine.shadow = meter(), meter()
    simulation = Simulation(objects, parse(_CONFIGURATION), engine=MeasuredEngine.from_configuration)
    _create_pods(simulation, "warm", warm)
    shadow, cycles = meter(), meter()
    MeasuredEngine.cycles, MeasuredEngine.shadow = cycles, shadow
    _create_pods(simulation, "measured", pods)
    (candidate,) = simulation.scheduler.shadows
    assert not candidate.skipped
    return shadow, cycles


def _create_pods(simulation: Simulation[MeasuredEngine], name: str, number: int) -> None:
    for index in range(number):
        simulation.create(make_pod(f"{name}-{index}", cpu="100m"))
    simulation.run()
