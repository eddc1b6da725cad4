"""Answers about capacity as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kframework.capacity.fit_result import Copies, DisplacedPod, FitResult, Obstacle
from kframework.capacity.nodes import NodePlan, RemovalPlan
from kframework.explain.text import format_list, format_sections, format_table
from kframework.observe.text_table import NONE, format_count

#: The number of rows of a table, unless it is wide.
_ROWS = 20


def format_fit(result: FitResult, *, wide: bool = False) -> str:
    """Write whether a workload fits, where its pods go, whom it evicts and what would help."""
    rows = None if wide else _ROWS
    pods = [(each.pod, each.node or NONE, each.message if wide else "") for each in result.pods]
    return format_sections(
        (_headline(result),),
        _rows(("POD", "NODE", "MESSAGE" if wide else ""), pods, rows) if pods else (),
        _format_evicted(result.evicted, rows) if result.evicted else (),
        _format_copies(result.copies) if result.copies is not None else (),
        _format_obstacle(result.obstacle) if result.obstacle is not None else (),
    )


def _headline(result: FitResult) -> str:
    names = ", ".join(result.workload) or "nothing"
    if not result.pods:
        return f"{names}: there are no pods to schedule."
    placed = sum(each.node != "" for each in result.pods)
    several = len(result.workload) > 1
    if result.fits:
        verb = "fit" if several else "fits"
    else:
        verb = "do not fit" if several else "does not fit"
    return f"{names} {verb}: {placed} of {format_count(len(result.pods), 'pod')} found a node."


def _rows(headers: Sequence[str], rows: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
    yield from format_table(headers, rows[:most])
    if most is not None and len(rows) > most:
        yield f"  ... and {len(rows) - most} more; -o wide shows them"


def _format_evicted(evicted: Sequence[DisplacedPod], most: int | None) -> Iterator[str]:
    yield "EVICTED, and where these pods go if they are recreated:"
    rows = [(each.pod, each.was_on, each.evicted_for, each.node or NONE, each.message) for each in evicted]
    yield from _rows(("POD", "FROM", "FOR", "TO", "MESSAGE"), rows, most)


def _format_copies(copies: Copies) -> Iterator[str]:
    if copies.fit == copies.tried:
        yield f"COPIES: all {copies.tried} that were tried fit, this one included."
    else:
        yield f"COPIES: {copies.fit} fit, this one included. The next one does not, unless it evicts pods:"
        yield f"  {copies.message}"


def _format_obstacle(obstacle: Obstacle) -> Iterator[str]:
    yield f"WHY NOT {obstacle.pod}:"
    yield f"  {obstacle.message}"
    if obstacle.remedies:
        yield "WHAT WOULD HELP, each by itself:"
        yield from format_list(remedy.text for remedy in obstacle.remedies)


def format_plan(plan: NodePlan, *, wide: bool = False) -> str:
    """Write the nodes to add, and the pods that fit on none of them."""
    rows = [(str(each.count), each.shape, f"{each.price:g}", str(each.pods)) for each in plan.added]
    unplaced = [(each.pod, each.message) for each in plan.unplaced]
    return format_sections(
        (_plan_headline(plan),),
        format_table(("COUNT", "SHAPE", "PRICE", "PODS"), rows) if rows else (),
        ("THESE PODS FIT ON NO SHAPE:", *_rows(("POD", "MESSAGE"), unplaced, None if wide else _ROWS))
        if unplaced
        else (),
    )


def _plan_headline(plan: NodePlan) -> str:
    if not plan.pending:
        return "All pods have a node."
    missing = f"{format_count(plan.pending, 'pod')} without a node"
    count, fitting = sum(each.count for each in plan.added), plan.pending - len(plan.unplaced)
    if not count:
        return f"{missing}: no shape helps."
    return f"{missing}: {fitting} of them fit with {format_count(count, 'more node')}, at a price of {plan.price:g}."


def format_removal(plan: RemovalPlan, *, wide: bool = False) -> str:
    """Write the nodes that can be emptied, and where their pods go."""
    if not plan.nodes:
        return format_sections(("No node can be emptied.",))
    rows = None if wide else _ROWS
    count, moved = format_count(len(plan.nodes), "node"), [(each.pod, each.node) for each in plan.moved]
    return format_sections(
        (f"{count} can be emptied, in this order; the price of all is {plan.price:g}.",),
        _rows(("NODE",), [(name,) for name in plan.nodes], rows),
        ("Their pods go to:", *_rows(("POD", "NODE"), moved, rows)) if moved else (),
    )
