"""Suggestions to give a pod its missing devices: others release theirs, or its claims request less."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, product

import numpy as np
from msgspec.structs import replace

from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    UNFIXABLE,
    AmountSuggestion,
    ChangeEstimates,
    Patch,
    Proposal,
    Suggestion,
    Suggestions,
    Target,
    delete_all,
    drop_item,
    format_taint,
    lower_request,
    patch_field,
    remove_item,
    suggest_each_and_all,
)
from kframework.objects import (
    CELSelector,
    DeviceConstraint,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from kframework.plugins.dynamic_resources.cycle import NOT_MADE_YET, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import key_of
from kframework.plugins.dynamic_resources.selection import clauses
from kframework.plugins.dynamic_resources.shortfalls import Shortfall, Shortfalls, Why, format_constraint
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PodInfo
from kframework.values.scores import Rows

#: The maximum number of single claims suggested for release, and of ways to reduce several requests.
_FEW = 16

#: The maximum distance of a node from having enough devices, in devices.
_FAR = 900

#: One way to satisfy a request, or the only one.
Way = ExactDeviceRequest | DeviceSubRequest

#: The pods on nodes by uid.
Pods = Mapping[str, PodInfo]


def suggested(devices: Devices, claims: ClaimsInCycle, pod: PodInfo, node: NodeInfo, pods: Pods) -> Suggestions:
    """Suggest how a pod gets its devices on a node, best first; dropping requests only as a last resort."""
    held = claims.unusable(node.table, np.array([node.row]))
    proposals = list(_given_up(held, pods, pod))
    try:
        shortfalls = Shortfalls(devices, claims.to_allocate(node), node)
    except AllocationError:
        pass
    else:
        lacking = [each for each in shortfalls.every if each.short or shortfalls.are_met]
        wanted = dict.fromkeys(device for each in lacking for device in _taken(devices, shortfalls, each))
        found = {key_of(claim): claim for device in wanted for claim in devices.holders.claims_with(device.id)}
        proposals += _given_up(found.values(), pods, pod)
        proposals += _asking_for_less(claims, shortfalls, pod, proposals[-1:])
    yield from proposals or drop_claims(pod)


# -- what others have ----------------------------------------------------------------------------------------------


def _taken(devices: Devices, shortfalls: Shortfalls, shortfall: Shortfall) -> Iterator[PoolDevice]:
    """Yield the devices in use that would help a request if released."""
    for device, loss in shortfall.verdicts.items():
        if loss is not None and loss.why in (Why.IN_USE, Why.CAPACITY):
            yield device
        elif loss is not None and loss.why is Why.COUNTERS:
            yield from shortfalls.consumers(device)


def _given_up(claims: Iterable[ResourceClaim], pods: Pods, pod: PodInfo) -> Iterator[Proposal]:
    """Suggest to delete the pods that use one of these claims, the least important first; or those of more and more."""
    users = [[pods.get(user.uid) for user in claim.status.reserved_for if user.uid != pod.uid] for claim in claims]
    units = [[each for each in unit if each is not None] for unit in users if unit and None not in unit]
    units.sort(key=lambda unit: (max(each.priority for each in unit), unit[0].key))
    for unit in units[:_FEW]:
        yield delete_all(unit)
    for count in range(2, len(units) + 1):
        together = list(dict.fromkeys(each for unit in units[:count] for each in unit))
        if len(together) > MAX_SUGGESTIONS:
            return
        yield delete_all(together)


# -- what the pod asks for -----------------------------------------------------------------------------------------


def _asking_for_less(
    claims: ClaimsInCycle, shortfalls: Shortfalls, pod: PodInfo, freed: Sequence[Proposal]
) -> Iterator[Proposal]:
    """Suggest changes of each unsatisfied request; or all known changes, combined with all released devices."""
    resources = {each.request_name: each.resource_name for each in claims.mappings(shortfalls.node)}
    unmet = [ways for ways in shortfalls.by_request if shortfalls.are_met or all(each.short for each in ways)]
    fixes = [[fix for each in ways for fix in _fixes_of(each, resources, pod) if fix] for ways in unmet]
    needed = [each for each in fixes if each]
    if needed:
        yield from (tuple(chain.from_iterable(each)) for each in islice(product(*needed), _FEW))
        everything = tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(needed))))
        yield everything
        yield from ((*each, *everything) for each in freed)


def _fixes_of(shortfall: Shortfall, resources: Mapping[str, str], pod: PodInfo) -> Iterator[Proposal]:
    """Yield the changes of one way to satisfy a request; the taints of its devices are tolerated together."""
    asked, short, left = shortfall.asked, shortfall.short, len(shortfall.left)
    claim, request = key_of(asked.claim), asked.name
    if asked.claim.metadata.name == NOT_MADE_YET:
        resource = resources.get(asked.request, "")
        amount = dict(pod.template.fit).get(resource, 0)
        less = min(short or amount, amount)
        yield (lower_request(resource, less, amount - less),) if amount else ()
        return
    against = (taint for device in shortfall.lost_to(Why.TAINT) for taint in asked.untolerated(device))
    taints = dict.fromkeys(replace(taint, time_added=None) for taint in against)
    yield tuple(tolerate_devices(claim, request, taint) for taint in taints)
    if left and not asked.all:
        counts = dict.fromkeys((left, 1) if short else (1,))
        yield from ((lower_count(claim, request, asked.count - to, to),) for to in counts if asked.count > to)
    unmet = {loss.what for loss in shortfall.losses if loss.why is Why.SELECTOR}
    for selector in asked.selectors:
        expression = selector.cel.expression if selector.cel is not None else ""
        yield from ((drop_clause(claim, request, expression, each),) for each in clauses(expression) if each in unmet)
    if shortfall.lost_to(Why.CONSTRAINT):
        yield from ((drop_constraint(claim, each),) for each in asked.claim.spec.devices.constraints)


def tolerate_devices(claim: str, request: str, taint: DeviceTaint) -> Suggestion:
    """Suggest that a request tolerate a taint of devices."""
    operator = "Equal" if taint.value else "Exists"
    toleration = DeviceToleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    text = f"let request {request} of claim {claim} tolerate {format_taint(taint)}"
    patch = _patch_request(request, lambda way: replace(way, tolerations=(*way.tolerations, toleration)))
    return Suggestion(text, Target(claim=claim), patch, "tolerateDevices", {"request": request, "taint": taint})


def lower_count(claim: str, request: str, amount: int, to: int) -> AmountSuggestion:
    """Suggest that a request use fewer devices."""
    return AmountSuggestion(
        f"lower the count in request {request} of claim {claim} from {to + amount} to {to}",
        Target(claim=claim),
        _patch_request(request, lambda way: replace(way, count=to)),
        "lowerCount",
        {"request": request, "amount": amount, "to": to},
        amount=amount,
        with_amount=lambda less: lower_count(claim, request, less, to + amount - less),
    )


def drop_clause(claim: str, request: str, expression: str, clause: str) -> Suggestion:
    """Suggest to drop a clause from a selector of a request, and the selector with its last clause."""
    rest = " && ".join(each for each in clauses(expression) if each != clause)
    reduced = (DeviceSelector(cel=CELSelector(expression=rest)),) if rest else ()

    def patch(way: Way) -> Way:
        kept = ((each,) if each.cel is None or each.cel.expression != expression else reduced for each in way.selectors)
        return replace(way, selectors=tuple(chain.from_iterable(kept)))

    text = f"drop {clause} from request {request} of claim {claim}"
    arguments = {"request": request, "clause": clause, "selector": expression, "rest": rest}
    return Suggestion(text, Target(claim=claim), _patch_request(request, patch), "dropClause", arguments)


def _patch_request(name: str, change: Callable[[Way], Way]) -> Patch:
    """Return a patch of one of a claim's requests; one of several ways to satisfy it is called `request/way`."""

    def patch(request: DeviceRequest) -> DeviceRequest:
        if request.name == name and request.exactly is not None:
            return replace(request, exactly=change(request.exactly))
        ways = (change(way) if f"{request.name}/{way.name}" == name else way for way in request.first_available)
        return replace(request, first_available=tuple(ways))

    return patch_field("spec.devices.requests", lambda requests: tuple(map(patch, requests)))


def drop_constraint(claim: str, constraint: DeviceConstraint) -> Suggestion:
    """Suggest to drop a constraint from a claim."""
    text = f"drop {format_constraint(constraint)} from claim {claim}"
    patch = remove_item("spec.devices.constraints", constraint)
    return Suggestion(text, Target(claim=claim), patch, "dropConstraint", {"constraint": constraint})


def drop_claims(pod: PodInfo) -> Suggestions:
    """Suggest that the pod do without one of its claims, or without all."""
    return suggest_each_and_all(
        drop_item("dropClaim", f"drop the pod's claim {each.name}", "spec.resource_claims", each, name=each.name)
        for each in pod.spec.resource_claims
    )


# -- where to look first -------------------------------------------------------------------------------------------


def estimated(devices: Devices, claims: ClaimsInCycle, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
    """Estimate the effort on each row: one change if enough devices are in reach, and some of them in use.

    It counts devices of any kind, so it is fast.
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
        return UNFIXABLE + _FAR
    is_in_use = devices.allocated.is_in_use
    reached, in_use = 0, 0
    for pool in pools:
        if pool.usable:
            reached += len(pool.devices)
            in_use += sum([is_in_use(device.id) for device in pool.devices])
    near = 1 / (2 + reached - in_use)
    if reached < wanted:
        return UNFIXABLE + min(wanted - reached, _FAR)
    return near if in_use else UNFIXABLE + near


def _fewest(claims: Iterable[ResourceClaim]) -> int:
    requests = chain.from_iterable(claim.spec.devices.requests for claim in claims)
    return sum(
        min(max(way.count, 1) for way in (each.first_available or (each.exactly,)) if way is not None)
        for each in requests
    )
