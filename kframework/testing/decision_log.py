"""A readable log of the decisions in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from kframework.core.cycle.records import Binding, Decision, Observer

#: The most decisions to show.
_MAX_SHOWN = 200


class DecisionLog(Sequence[Decision], Observer):
    """The decisions of one scenario after the other; as text, a line for each."""

    def __init__(self) -> None:
        self._decisions: list[Decision] = []

    def on_decision(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        """Ignore bindings."""

    @overload
    def __getitem__(self, index: int) -> Decision: ...
    @overload
    def __getitem__(self, index: slice) -> list[Decision]: ...
    def __getitem__(self, index: int | slice) -> Decision | list[Decision]:
        return self._decisions[index]

    def __len__(self) -> int:
        return len(self._decisions)

    def for_pod(self, pod: str) -> list[Decision]:
        """List the attempts at a pod, named `name` or `namespace/name`."""
        key = pod if "/" in pod else f"default/{pod}"
        return [decision for decision in self._decisions if decision.pod == key]

    def __str__(self) -> str:
        lines = [_format_decision(decision) for decision in self._decisions[-_MAX_SHOWN:]]
        left_out = len(self._decisions) - len(lines)
        return "\n".join([f"... {left_out} more before", *lines] if left_out else lines)


def _format_decision(decision: Decision) -> str:
    attempt = f"{decision.pod}, attempt {decision.tries}:"
    if not decision.node:
        return f"{attempt} {decision.result}: {decision.message}"
    nodes = f"{decision.feasible} of {decision.evaluated} evaluated nodes feasible"
    return f"{attempt} to {decision.node}, score {decision.score}; {nodes}"
