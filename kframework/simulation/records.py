"""The tables of a simulation: where its pods went, and each attempt and binding on the way."""

from __future__ import annotations

from collections.abc import Iterable

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.decision import Binding, Decision
from kframework.scheduler.simulate import Outcome
from kframework.simulation.tables import Table


def outcomes_table(outcomes: Iterable[Outcome]) -> Table[Outcome]:
    """Show where pods went, or why they wait."""
    return Table(
        outcomes,
        {
            "pod": lambda each: each.pod,
            "node": lambda each: each.node,
            "status": lambda each: each.phase or "Pending",
            "attempts": lambda each: each.attempts,
            "message": lambda each: each.message,
        },
    )


def decisions_table(decisions: Iterable[Decision], began: float = VIRTUAL_EPOCH) -> Table[Decision]:
    """Show attempts, with the seconds since the start."""
    return Table(
        decisions,
        {
            "attempt": lambda each: each.attempt,
            "at": lambda each: each.popped_at - began,
            "pod": lambda each: each.pod,
            "result": lambda each: each.result.value,
            "node": lambda each: each.node,
            "score": lambda each: each.score if each.top else None,
            "feasible": lambda each: each.feasible,
            "evaluated": lambda each: each.evaluated,
            "message": lambda each: each.message,
        },
    )


def bindings_table(bindings: Iterable[Binding], began: float = VIRTUAL_EPOCH) -> Table[Binding]:
    """Show the ends of binding cycles, with the seconds since the start."""
    return Table(
        bindings,
        {
            "attempt": lambda each: each.attempt,
            "at": lambda each: each.ended_at - began,
            "pod": lambda each: each.pod,
            "node": lambda each: each.node,
            "code": lambda each: each.code.name,
            "message": lambda each: each.message,
        },
    )
