"""Suggestions to make room for a pod on a node: others free what is missing, or the pod requests less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kframework.framework.suggestions import (
    AmountSuggestion,
    Suggestions,
    delete_pod,
    free_resource,
    lower_request,
    sort_by_importance,
)
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PodInfo


class Shortage(NamedTuple):
    """The missing amount of a resource on a node, the pod's request, and whether the empty node has enough."""

    resource: str
    missing: int
    requested: int
    possible: bool


def shortages(node: NodeInfo, requested: Iterable[tuple[str, int]], nominated: Iterable[PodInfo]) -> list[Shortage]:
    """List the resources that the node lacks, also considering pods nominated to it."""
    reserved = Counter[str]()
    for other in nominated:
        reserved.update(dict(other.on_node), pods=1)
    result = []
    for resource, amount in requested:
        offered = node.allocatable(resource)
        missing = amount + node.requested(resource) + reserved[resource] - offered
        if missing > 0:
            result.append(Shortage(resource, missing, amount, amount <= offered))
    return result


def make_room(node: NodeInfo, missing: Sequence[Shortage]) -> Suggestions:
    """Suggest freeing what is missing; first, deleting pods as long as each replaces more than one freed resource."""
    if not all(shortage.possible for shortage in missing):
        return
    rest, deleted = list(missing), list[PodInfo]()
    for _ in missing[1:]:
        remaining = [other for other in node.pods if other not in deleted]
        if not rest or not remaining:
            break
        deleted.append(
            min(
                remaining,
                key=lambda other: (*_remaining_need(_missing_without(other, rest)), other.priority, other.key),
            )
        )
        rest = _missing_without(deleted[-1], rest)
        if len(deleted) + len(rest) < len(missing):
            yield (*map(delete_pod, deleted), *(_free_resource(node, each) for each in rest))
    yield tuple(_free_resource(node, each) for each in missing)


def request_less(node: NodeInfo, missing: Sequence[Shortage]) -> Suggestions:
    """Suggest requesting what is available; or only what a node never has, making room for the rest."""
    for lowered in (missing, [each for each in missing if not each.possible]):
        if lowered and all(each.resource != "pods" for each in lowered):
            freed = (each for each in missing if each not in lowered)
            yield (*map(_lower_request, lowered), *(_free_resource(node, each) for each in freed))


def _lower_request(shortage: Shortage) -> AmountSuggestion:
    amount = min(shortage.missing, shortage.requested)
    return lower_request(shortage.resource, amount, shortage.requested - amount)


def _free_resource(node: NodeInfo, shortage: Shortage) -> AmountSuggestion:
    return free_resource(node.name, shortage.resource, shortage.missing, _examples(node, shortage))


def _examples(node: NodeInfo, shortage: Shortage) -> Sequence[PodInfo]:
    """Choose pods without which there is room: one if one is enough, else the largest until there is."""
    amounts = {
        other: _amount_of(other, shortage.resource) for other in sort_by_importance(node.pods) if not other.terminating
    }
    enough = [other for other, amount in amounts.items() if amount >= shortage.missing]
    if enough:
        lowest = [other for other in enough if other.priority == enough[0].priority]
        return [min(lowest, key=lambda other: amounts[other])]
    chosen, missing = [], shortage.missing
    for other in sorted(amounts, key=lambda other: -amounts[other]):
        if missing > 0 and amounts[other]:
            chosen.append(other)
            missing -= amounts[other]
    return chosen if missing <= 0 else ()


def _missing_without(pod: PodInfo, missing: Iterable[Shortage]) -> list[Shortage]:
    remaining = (each._replace(missing=each.missing - _amount_of(pod, each.resource)) for each in missing)
    return [each for each in remaining if each.missing > 0]


def _remaining_need(missing: Sequence[Shortage]) -> tuple[int, float]:
    return len(missing), sum(each.missing / each.requested for each in missing)


def _amount_of(pod: PodInfo, resource: str) -> int:
    return 1 if resource == "pods" else dict(pod.on_node).get(resource, 0)
