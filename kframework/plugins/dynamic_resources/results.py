"""The allocation results that are written into claims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from msgspec.structs import replace

from kframework.objects import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClaimConfiguration,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceClaim,
)
from kframework.plugins.dynamic_resources.allocator import ChosenDevice
from kframework.plugins.dynamic_resources.errors import AllocationError
from kframework.plugins.dynamic_resources.requests import RequestOption
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates


def build_allocation(
    claim: ResourceClaim,
    chosen: Sequence[ChosenDevice],
    node_name: str,
    share_id: Callable[[], str],
    gates: FeatureGates = DEFAULT_GATES,
) -> AllocationResult:
    """Return the allocation of a claim on a node; AllocationError if the reachable nodes cannot be expressed."""
    config: tuple[DeviceAllocationConfiguration, ...] = ()
    if claim.spec.devices.config or any(each.option.device_class.spec.config for each in chosen):  # few have any
        config = tuple((_configuration_1_36 if gates.is_1_36 else _configuration_1_37)(claim, chosen))
    devices = DeviceAllocationResult(results=tuple(_device_result(each, share_id) for each in chosen), config=config)
    return AllocationResult(devices=devices, node_selector=_node_selector(claim, chosen, node_name))


def _device_result(chosen: ChosenDevice, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    option, device = chosen.option, chosen.device
    return DeviceRequestAllocationResult(
        request=option.name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if option.admin else None,
        tolerations=option.tolerations,
        binding_conditions=device.object.binding_conditions,
        binding_failure_conditions=device.object.binding_failure_conditions,
        share_id=share_id() if device.shared else None,
        consumed_capacity={name: str(amount) for name, amount in chosen.amounts.items()},
    )


def _configuration_1_36(
    claim: ResourceClaim, chosen: Sequence[ChosenDevice]
) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configuration for drivers: that of each class once, that of the claim for each of its requests."""
    options = list(dict.fromkeys(each.option for each in chosen))
    yield from _class_configuration(options)
    for config in claim.spec.devices.config:
        for _ in range(len(_configured(config, options)) if config.requests else 1):
            yield DeviceAllocationConfiguration(source="FromClaim", requests=config.requests, opaque=config.opaque)


def _configuration_1_37(
    claim: ResourceClaim, chosen: Sequence[ChosenDevice]
) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configuration for drivers, each once; it names no requests if it is for all of the claim."""
    options = list(dict.fromkeys(each.option for each in chosen))
    everything = {request.name for request in claim.spec.devices.requests}
    for each in _class_configuration(options):
        requests = {option.request for option in options if option.name in each.requests}
        yield replace(each, requests=()) if requests == everything else each
    for config in claim.spec.devices.config:
        configured = _configured(config, options)
        if configured or not config.requests:
            is_for_all = {option.request for option in configured} == everything
            requests_named = () if is_for_all else config.requests
            yield DeviceAllocationConfiguration(source="FromClaim", requests=requests_named, opaque=config.opaque)


def _class_configuration(options: Sequence[RequestOption]) -> Iterator[DeviceAllocationConfiguration]:
    """Yield the configuration of each class, for all its requests."""
    for name in dict.fromkeys(option.device_class.metadata.name for option in options):
        of_class = [option for option in options if option.device_class.metadata.name == name]
        requests = tuple(option.name for option in of_class)
        for config in of_class[0].device_class.spec.config:
            yield DeviceAllocationConfiguration(source="FromClass", requests=requests, opaque=config.opaque)


def _configured(config: DeviceClaimConfiguration, options: Sequence[RequestOption]) -> list[RequestOption]:
    return [each for each in options if each.request in config.requests or each.name in config.requests]


def _node_selector(claim: ResourceClaim, chosen: Sequence[ChosenDevice], node_name: str) -> NodeSelector | None:
    """Return the nodes that can access all devices: this one alone if some is local to it, None for all."""
    if any(each.device.local for each in chosen):
        return _single_node_selector(node_name)
    fields, expressions = dict[NodeSelectorRequirement, None](), dict[NodeSelectorRequirement, None]()
    for each in chosen:
        selector = each.device.access.selector
        terms = () if selector is None else selector.node_selector_terms
        if len(terms) > 1:
            text = f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(f"create NodeSelector for claim {claim.metadata.name}: {text}")
        for term in terms:
            fields |= dict.fromkeys(term.match_fields)
            expressions |= dict.fromkeys(term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


@lru_cache(maxsize=16_384)  # a node has several devices, and a selector took a fifth of an allocation
def _single_node_selector(node_name: str) -> NodeSelector:
    field = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
