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
from kframework.plugins.dynamic_resources.cycle import UNCREATED, ClaimsInCycle
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import claim_key
from kframework.plugins.dynamic_resources.selection import clauses
from kframework.plugins.dynamic_resources.shortfalls import LossReason, Shortfall, Shortfalls, format_constraint
from kframework.plugins.dynamic_resources.slices import PoolDevice
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PodInfo
from kframework.values.scores import Rows

#: The maximum number of single claims suggested for release, and of ways to reduce several requests.
_MAX_SINGLE = 16

#: The maximum distance of a node from having enough devices, in devices.
_MAX_DISTANCE = 900

#: One way to satisfy a request, or the only one.
RequestSpec = ExactDeviceRequest | DeviceSubRequest

#: The pods on nodes by uid.
Pods = Mapping[str, PodInfo]


def suggest_changes(devices: Devices, claims: ClaimsInCycle, pod: PodInfo, node: NodeInfo, pods: Pods) -> Suggestions:
    """Suggest how a pod gets its devices on a node, best first; dropping requests only as a last resort."""
    unusable = claims.unusable_claims(node.table, np.array([node.row]))
    proposals = list(_delete_users(unusable, pods, pod))
    try:
        shortfalls = Shortfalls(devices, claims.claims_to_allocate(node), node)
    except AllocationError:
        pass
    else:
        lacking = [each for each in shortfalls.each_option if each.missing or shortfalls.are_met_alone]
        devices_in_use = dict.fromkeys(
            device for each in lacking for device in _blocking_devices(devices, shortfalls, each)
        )
        claims_in_use = {
            claim_key(claim): claim for device in devices_in_use for claim in devices.holders.claims_with(device.id)
        }
        proposals += _delete_users(claims_in_use.values(), pods, pod)
        proposals += _request_less(claims, shortfalls, pod, proposals[-1:])
    yield from proposals or drop_claims(pod)


def _blocking_devices(devices: Devices, shortfalls: Shortfalls, shortfall: Shortfall) -> Iterator[PoolDevice]:
    """Yield the devices in use that would help a request if released."""
    for device, loss in shortfall.verdicts.items():
        if loss is not None and loss.reason in (LossReason.IN_USE, LossReason.CAPACITY):
            yield device
        elif loss is not None and loss.reason is LossReason.COUNTERS:
            yield from shortfalls.consumers(device)


def _delete_users(claims: Iterable[ResourceClaim], pods: Pods, pod: PodInfo) -> Iterator[Proposal]:
    """Suggest to delete the pods that use one of these claims, the least important first; then of several claims."""
    users = [[pods.get(user.uid) for user in claim.status.reserved_for if user.uid != pod.uid] for claim in claims]
    units = [[each for each in unit if each is not None] for unit in users if unit and None not in unit]
    units.sort(key=lambda unit: (max(each.priority for each in unit), unit[0].key))
    for unit in units[:_MAX_SINGLE]:
        yield delete_all(unit)
    for count in range(2, len(units) + 1):
        together = list(dict.fromkeys(each for unit in units[:count] for each in unit))
        if len(together) > MAX_SUGGESTIONS:
            return
        yield delete_all(together)


def _request_less(
    claims: ClaimsInCycle, shortfalls: Shortfalls, pod: PodInfo, freed: Sequence[Proposal]
) -> Iterator[Proposal]:
    """Suggest changes of each unsatisfied request; or all known changes, combined with all released devices."""
    resources = {each.request_name: each.resource_name for each in claims.mappings(shortfalls.node)}
    unmet = [
        options
        for options in shortfalls.by_request
        if shortfalls.are_met_alone or all(each.missing for each in options)
    ]
    fixes = [[fix for each in options for fix in _fixes_of(each, resources, pod) if fix] for options in unmet]
    needed = [each for each in fixes if each]
    if needed:
        yield from (tuple(chain.from_iterable(each)) for each in islice(product(*needed), _MAX_SINGLE))
        everything = tuple(dict.fromkeys(chain.from_iterable(chain.from_iterable(needed))))
        yield everything
        yield from ((*each, *everything) for each in freed)


def _fixes_of(shortfall: Shortfall, resources: Mapping[str, str], pod: PodInfo) -> Iterator[Proposal]:
    """Yield the changes of one way to satisfy a request; the taints of its devices are tolerated together."""
    option, missing, available = shortfall.option, shortfall.missing, len(shortfall.available)
    claim, request = claim_key(option.claim), option.name
    if option.claim.metadata.name == UNCREATED:
        resource = resources.get(option.request, "")
        amount = dict(pod.template.fit).get(resource, 0)
        less = min(missing or amount, amount)
        yield (lower_request(resource, less, amount - less),) if amount else ()
        return
    untolerated = (
        each.taint for device in shortfall.devices_lost_to(LossReason.TAINT) for each in option.untolerated(device)
    )
    taints = dict.fromkeys(replace(taint, time_added=None) for taint in untolerated)
    yield tuple(tolerate_devices(claim, request, taint) for taint in taints)
    if available and not option.all:
        counts = dict.fromkeys((available, 1) if missing else (1,))
        yield from ((lower_count(claim, request, option.count - to, to),) for to in counts if option.count > to)
    unmet = {loss.detail for loss in shortfall.losses if loss.reason is LossReason.SELECTOR}
    for selector in option.selectors:
        expression = selector.cel.expression if selector.cel is not None else ""
        yield from ((drop_clause(claim, request, expression, each),) for each in clauses(expression) if each in unmet)
    if shortfall.devices_lost_to(LossReason.CONSTRAINT):
        yield from ((drop_constraint(claim, each),) for each in option.claim.spec.devices.constraints)


def tolerate_devices(claim: str, request: str, taint: DeviceTaint) -> Suggestion:
    operator = "Equal" if taint.value else "Exists"
    toleration = DeviceToleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    text = f"let request {request} of claim {claim} tolerate {format_taint(taint)}"
    patch = _patch_request(request, lambda way: replace(way, tolerations=(*way.tolerations, toleration)))
    return Suggestion(text, Target(claim=claim), patch, "tolerateDevices", {"request": request, "taint": taint})


def lower_count(claim: str, request: str, amount: int, to: int) -> AmountSuggestion:
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

    def patch(way: RequestSpec) -> RequestSpec:
        selectors = (
            (each,) if each.cel is None or each.cel.expression != expression else reduced for each in way.selectors
        )
        return replace(way, selectors=tuple(chain.from_iterable(selectors)))

    text = f"drop {clause} from request {request} of claim {claim}"
    arguments = {"request": request, "clause": clause, "selector": expression, "rest": rest}
    return Suggestion(text, Target(claim=claim), _patch_request(request, patch), "dropClause", arguments)


def _patch_request(name: str, change: Callable[[RequestSpec], RequestSpec]) -> Patch:
    """Return a patch of one of a claim's requests; one of several ways to satisfy it is called `request/way`."""

    def patch(request: DeviceRequest) -> DeviceRequest:
        if request.name == name and request.exactly is not None:
            return replace(request, exactly=change(request.exactly))
        ways = (change(way) if f"{request.name}/{way.name}" == name else way for way in request.first_available)
        return replace(request, first_available=tuple(ways))

    return patch_field("spec.devices.requests", lambda requests: tuple(map(patch, requests)))


def drop_constraint(claim: str, constraint: DeviceConstraint) -> Suggestion:
    text = f"drop {format_constraint(constraint)} from claim {claim}"
    patch = remove_item("spec.devices.constraints", constraint)
    return Suggestion(text, Target(claim=claim), patch, "dropConstraint", {"constraint": constraint})


def drop_claims(pod: PodInfo) -> Suggestions:
    return suggest_each_and_all(
        drop_item("dropClaim", f"drop the pod's claim {each.name}", "spec.resource_claims", each, name=each.name)
        for each in pod.spec.resource_claims
    )


def estimate_changes(devices: Devices, claims: ClaimsInCycle, nodes: NodeTable, rows: Rows) -> ChangeEstimates:
    """Estimate the effort on each row: one change if enough devices are accessible, and some of them in use.

    It counts devices of any kind, so it is fast.
    """
    devices.pools.refresh()
    row_numbers = rows if isinstance(rows, np.ndarray) else np.arange(nodes.capacity)[rows]
    needed_by_claims: dict[tuple[str, ...], int] = {}
    estimates = np.zeros(len(row_numbers))
    for index, row in enumerate(row_numbers.tolist()):
        node = nodes[row]
        to_allocate = claims.claims_to_allocate(node)
        names = tuple(claim.metadata.name for claim in to_allocate)
        if names not in needed_by_claims:
            needed_by_claims[names] = _min_devices(to_allocate)
        estimates[index] = _estimate(devices, needed_by_claims[names], node)
    return estimates


def _estimate(devices: Devices, needed: int, node: NodeInfo) -> float:
    try:
        pools = devices.pools.for_node(node)
    except AllocationError:
        return UNFIXABLE + _MAX_DISTANCE
    is_in_use = devices.allocated.is_in_use
    accessible, in_use = 0, 0
    for pool in pools:
        if pool.is_usable:
            accessible += len(pool.devices)
            in_use += sum([is_in_use(device.id) for device in pool.devices])
    near = 1 / (2 + accessible - in_use)
    if accessible < needed:
        return UNFIXABLE + min(needed - accessible, _MAX_DISTANCE)
    return near if in_use else UNFIXABLE + near


def _min_devices(claims: Iterable[ResourceClaim]) -> int:
    requests = chain.from_iterable(claim.spec.devices.requests for claim in claims)
    return sum(
        min(max(way.count, 1) for way in (each.first_available or (each.exactly,)) if way is not None)
        for each in requests
    )
