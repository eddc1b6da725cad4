"""A process that schedules until a number of pods is bound."""

from __future__ import annotations

from kframework.core.cycle.records import Binding, Decision
from kframework.process.process import Process


class StopAfterBindings:
    """Stops a process when a number of pods is bound."""

    def __init__(self, pods: int) -> None:
        self.process: Process | None = None
        self.nodes: dict[str, str] = {}
        self._pods = pods

    def on_decision(self, decision: Decision) -> None:
        """Take no notice."""

    def on_binding(self, binding: Binding) -> None:
        """Note where the pod went."""
        self.nodes[binding.pod] = binding.node
        if len(self.nodes) == self._pods:
            assert self.process is not None
            self.process.stop()
