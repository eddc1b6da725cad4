"""A readable log of the decisions in a test."""

from __future__ import annotations

from kframework.core.cycle.records import Binding, Decision, Observer

#: The most decisions to show.
_MAX_SHOWN = 200


class DecisionLog(list[Decision], Observer):
    """The decisions of one scenario after the other; as text, a line for each."""

    def on_decision(self, decision: Decision) -> None:
        self.append(decision)

    def on_binding(self, binding: Binding) -> None:
        """Ignore bindings."""

    def for_pod(self, pod: str) -> list[Decision]:
        """List the attempts at a pod, named `name` or `namespace/name`."""
        key = pod if "/" in pod else f"default/{pod}"
        return [decision for decision in self if decision.pod == key]

    def __str__(self) -> str:
        lines = [_format_decision(decision) for decision in self[-_MAX_SHOWN:]]
        left_out = len(self) - len(lines)
        return "\n".join([f"... {left_out} more before", *lines] if left_out else lines)


def _format_decision(decision: Decision) -> str:
    attempt = f"{decision.pod}, attempt {decision.pod_attempts}:"
    if not decision.node:
        return f"{attempt} {decision.result}: {decision.message}"
    nodes = f"{decision.feasible} of {decision.evaluated} evaluated nodes feasible"
    return f"{attempt} to {decision.node}, score {decision.score}; {nodes}"
