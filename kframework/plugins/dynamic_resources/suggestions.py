"""What would give a pod the devices that it lacks: that others give theirs back, or that its claims ask for less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product

import numpy as np
from msgspec.structs import replace

from kframework.framework.claim_suggestions import DropClause, DropConstraint, LowerCount, TolerateDevices
from kframework.framework.pod_suggestions import DropClaim, LowerRequest
from kframework.framework.suggestions import BEYOND_HELP, MOST, Change, Efforts, Suggestion, delete_all
from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import Asked, key_of
from kframework.plugins.dynamic_resources.selectors.clauses import clauses
from kframework.plugins.dynamic_resources.shortfalls import Shortfall, Shortfalls, Why
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PodInfo
from kframework.values.scores import Rows

#: So many claims are suggested to be given up one by one, so many ways to have several requests ask for less.
_FEW = 16

#: How far away the farthest node is from having enough devices, in devices.
_FAR = 900

#: The pods on nodes by uid.
Pods = Mapping[str, PodInfo]


def drop_claims(pod: PodInfo) -> Iterator[Suggestion]:
    """Suggest that the pod do without one of its claims, or without all."""
    dropped = [DropClaim(each.name) for each in pod.spec.resource_claims]
    yield from dropped
    yield tuple(dropped)


def suggested(
    devices: Devices, claims: ClaimsInCycle, pod: PodInfo, node: NodeInfo, pods: Pods
) -> Iterator[Suggestion]:
    """Suggest what may give a pod its devices on a node, best first: to do without only where nothing else is known."""
    held = claims.unusable(node.table, np.array([node.row]))
    proposals = list(_given_up(held, pods, pod))
    try:
        shortfalls = Shortfalls(devices, claims.to_allocate(node), node)
    except AllocationError:
        pass
    else:
        proposals += _freeing(devices, shortfalls, pods, pod)
        proposals += _asking_for_less(claims, shortfalls, pod, proposals[-1:])
    yield from proposals or drop_claims(pod)


# -- what others have ----------------------------------------------------------------------------------------------


def _freeing(devices: Devices, shortfalls: Shortfalls, pods: Pods, pod: PodInfo) -> Iterator[Suggestion]:
    """Suggest to delete the pods that have devices which are lacking: those of one claim, or of all."""
    lacking = [each for each in shortfalls.every if each.short or shortfalls.are_met]
    wanted = dict.fromkeys(device for each in lacking for device in _taken(devices, shortfalls, each))
    found = {key_of(claim): claim for device in wanted for claim in devices.holders.claims_with(device.id)}
    yield from _given_up(found.values(), pods, pod)


def _taken(devices: Devices, shortfalls: Shortfalls, shortfall: Shortfall) -> Iterator[PoolDevice]:
    """Yield the devices in use that would help a request if they were not."""
    for device, loss in shortfall.verdicts.items():
        if loss is not None and loss.why in (Why.IN_USE, Why.CAPACITY):
            yield device
        elif loss is not None and loss.why is Why.COUNTERS:
            yield from shortfalls.consumers(device)


def _given_up(claims: Iterable[ResourceClaim], pods: Pods, pod: PodInfo) -> Iterator[Suggestion]:
    """Suggest to delete the pods that use one of these claims, the least important first; or those of more and more."""
    users = [[pods.get(user.uid) for user in claim.status.reserved_for if user.uid != pod.uid] for claim in claims]
    units = [[each for each in unit if each is not None] for unit in users if unit and None not in unit]
    units.sort(key=lambda unit: (max(each.priority for each in unit), unit[0].key))
    for unit in units[:_FEW]:
        yield delete_all(unit)
    for count in range(2, len(units) + 1):
        together = list(dict.fromkeys(each for unit in units[:count] for each in unit))
        if len(together) > MOST:
            return
        yield delete_all(together)


# -- what the pod asks for -----------------------------------------------------------------------------------------


def _asking_for_less(
    claims: ClaimsInCycle, shortfalls: Shortfalls, pod: PodInfo, freed: Sequence[Suggestion]
) -> Iterator[Suggestion]:
    """Suggest changes of each request that cannot be satisfied; or all that are known, and all that others free."""
    resources = {each.request_name: each.resource_name for each in claims.mappings(shortfalls.node)}
    fixes = [_fixes(ways, shortfalls.are_met, resources, pod) for ways in shortfalls.by_request]
    needed = [each for each in fixes if each]
    if needed:
        yield from (tuple(chain.from_iterable(each)) for each in islice(product(*needed), _FEW))
        everything = tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(needed))))
        yield everything
        yield from ((*(each if isinstance(each, tuple) else (each,)), *everything) for each in freed)


def _fixes(
    ways: Sequence[Shortfall], are_met: bool, resources: Mapping[str, str], pod: PodInfo
) -> list[tuple[Change, ...]]:
    """List the changes any of which may satisfy a request; none where it can be satisfied as it is."""
    if not are_met and not all(each.short for each in ways):
        return []
    return [fix for each in ways for fix in _fixes_of(each, resources, pod) if fix]


def _fixes_of(shortfall: Shortfall, resources: Mapping[str, str], pod: PodInfo) -> Iterator[tuple[Change, ...]]:
    asked = shortfall.asked
    if asked.claim.metadata.name == NOT_MADE_YET:
        resource = resources.get(asked.request, "")
        amount = dict(pod.template.fit).get(resource, 0)
        if amount:
            less = min(shortfall.short or amount, amount)
            yield (LowerRequest(resource, less, amount - less),)
        return
    yield _tolerating(shortfall)
    if shortfall.left and not asked.all:
        if shortfall.short:
            yield _lowered(asked, len(shortfall.left))
        if len(shortfall.left) > 1 or not shortfall.short:
            yield _lowered(asked, 1)
    yield from _selecting_more(shortfall)
    yield from _unconstrained(shortfall)


def _lowered(asked: Asked, to: int) -> tuple[Change, ...]:
    return (LowerCount(key_of(asked.claim), asked.name, asked.count - to, to),) if asked.count > to else ()


def _tolerating(shortfall: Shortfall) -> tuple[Change, ...]:
    asked, tainted = shortfall.asked, shortfall.lost_to(Why.TAINT)
    taints = dict.fromkeys(replace(taint, time_added=None) for device in tainted for taint in asked.untolerated(device))
    return tuple(TolerateDevices(key_of(asked.claim), asked.name, taint) for taint in taints)


def _selecting_more(shortfall: Shortfall) -> Iterator[tuple[Change, ...]]:
    asked = shortfall.asked
    against = {loss.what for loss in shortfall.losses if loss.why is Why.SELECTOR}
    for selector in asked.selectors:
        expression = selector.cel.expression if selector.cel is not None else ""
        parts = clauses(expression)
        for clause in parts:
            if clause in against:
                rest = " && ".join(part for part in parts if part != clause)
                yield (DropClause(key_of(asked.claim), asked.name, clause, expression, rest),)


def _unconstrained(shortfall: Shortfall) -> Iterator[tuple[Change, ...]]:
    asked = shortfall.asked
    if shortfall.lost_to(Why.CONSTRAINT):
        for constraint in asked.claim.spec.devices.constraints:
            yield (DropConstraint(key_of(asked.claim), constraint),)


# -- where to look first -------------------------------------------------------------------------------------------


def estimated(devices: Devices, claims: ClaimsInCycle, nodes: NodeTable, rows: Rows) -> Efforts:
    """Estimate the effort on each row: one change where enough devices are in reach, and some of them in use.

    It counts devices whatever they are, so it is quick.
    """
    devices.pools.catch_up()
    listed = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
    asking: dict[tuple[str, ...], int] = {}
    efforts = np.zeros(len(listed))
    for place, row in enumerate(listed.tolist()):
        node = nodes[row]
        wanting = claims.to_allocate(node)
        names = tuple(claim.metadata.name for claim in wanting)
        if names not in asking:
            asking[names] = _fewest(wanting)
        efforts[place] = _effort(devices, asking[names], node)
    return efforts


def _effort(devices: Devices, wanted: int, node: NodeInfo) -> float:
    try:
        pools = devices.pools.of(node)
    except AllocationError:
        return BEYOND_HELP + _FAR
    is_in_use = devices.allocated.is_in_use
    reached, in_use = 0, 0
    for pool in pools:
        if pool.usable:
            reached += len(pool.devices)
            in_use += sum([is_in_use(device.id) for device in pool.devices])
    near = 1 / (2 + reached - in_use)
    if reached < wanted:
        return BEYOND_HELP + min(wanted - reached, _FAR)
    return near if in_use else BEYOND_HELP + near


def _fewest(claims: Iterable[ResourceClaim]) -> int:
    """Return how many devices claims ask for at least."""
    requests = chain.from_iterable(claim.spec.devices.requests for claim in claims)
    return sum(
        min(max(way.count, 1) for way in (each.first_available or (each.exactly,)) if way is not None)
        for each in requests
    )
