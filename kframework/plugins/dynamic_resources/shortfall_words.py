"""What claims lack on a node, in words: a line for each request, and one for what each kind of loss comes to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

import numpy as np

from kframework.framework.suggestions import format_names
from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocated import results_of
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, UNAVAILABLE, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.feasibility import INVALID_POOLS, TOO_FEW
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.plugins.dynamic_resources.shortfalls import Loss, Shortfall, Shortfalls, Why
from kframework.state.nodes import NodeInfo

#: So many who have devices, and so many different losses of one kind, are named.
_NAMED = 4


def explained(devices: Devices, claims: ClaimsInCycle, node: NodeInfo) -> list[str]:
    """Say what is behind the rejection of a node."""
    row = np.array([node.row])
    answer = int(claims.answers(node.table, row)[0])
    if answer == UNAVAILABLE:
        return [_elsewhere(claim) for claim in claims.unusable(node.table, row)]
    if answer not in (TOO_FEW, INVALID_POOLS):
        return []
    try:
        return list(in_words(Shortfalls(devices, claims.to_allocate(node), node)))
    except AllocationError as problem:
        return [str(problem)]


def _elsewhere(claim: ResourceClaim) -> str:
    held = [f"{result.pool}/{result.device}" for result in results_of(claim)]
    return f"{claim_in_words(claim)} has its devices already, and not for this node: {format_names(held)}"


def in_words(shortfalls: Shortfalls) -> Iterator[str]:
    """Yield the lines; what belongs to the one before is indented."""
    for shortfall in shortfalls.every:
        yield _headed(shortfall)
        yield from (f"  {line}" for line in _losses(shortfall.losses))
    yield from (f"pool {pool}: its driver is still publishing it" for pool in shortfalls.unpublished)
    if shortfalls.are_met:
        unmet = shortfalls.first_unmet()
        beside = f": for {unmet} the others before it leave too little" if unmet else ""
        yield f"each request could be satisfied alone, but not all of them together{beside}"


def claim_in_words(claim: ResourceClaim) -> str:
    """Name a claim, or say what for it would be made."""
    made_up = claim.metadata.name == NOT_MADE_YET
    return "the pod's extended resources" if made_up else f"claim {key_of(claim)}"


def _headed(shortfall: Shortfall) -> str:
    asked, left, total = shortfall.asked, len(shortfall.left), len(shortfall.verdicts)
    wanted = f"{'all of ' if asked.all else ''}{shortfall.wanted}"
    there = f"{left} of {total} device{'' if total == 1 else 's'}" if total else "none"
    return f"{asked.name} of {claim_in_words(asked.claim)} wants {wanted}: {there} can be had"


def _losses(losses: Mapping[Loss, int]) -> Iterator[str]:
    for why, group in groupby(losses.items(), key=lambda item: item[0].why):
        several = sorted(((loss.what, count) for loss, count in group), key=lambda item: (-item[1], item[0]))
        if why is Why.IN_USE:
            yield _in_one_line(several)
            continue
        yield from (f"{count} {' '.join(filter(None, (why.value, what)))}" for what, count in several[:_NAMED])
        rest = sum(count for _, count in several[_NAMED:])
        if rest:
            yield f"{rest} {why.value} others"


def _in_one_line(holders: list[tuple[str, int]]) -> str:
    total = sum(count for _, count in holders)
    if len(holders) == 1:
        return f"{total} {Why.IN_USE.value} {holders[0][0]}"
    named = ", ".join(f"{who} ({count})" for who, count in holders[:_NAMED])
    rest = len(holders) - _NAMED
    return f"{total} {Why.IN_USE.value} {named}{f' and {rest} more' if rest > 0 else ''}"
