"""Slices and their devices in the form that the allocator needs: every quantity and selector is parsed once."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from kframework.framework.suggestions import format_taint
from kframework.objects import (
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintSelector,
    NodeSelector,
    RawQuantity,
    ResourceSlice,
)
from kframework.objects.node_selectors import NodeSelectorTerms
from kframework.objects.quantity import nano
from kframework.plugins.dynamic_resources.capacities import Amounts, consumed_amounts
from kframework.state.nodes import NodeInfo

if TYPE_CHECKING:
    from kframework.plugins.dynamic_resources.device_selectors import CelDevice


class PoolId(NamedTuple):
    """A pool of a driver."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device of a pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


#: Amounts of counters in nanos, by the names of counter set and counter.
Counters = Mapping[tuple[str, str], int]


class AppliedTaint(NamedTuple):
    """A taint that keeps claims away from a device, and the name of the DeviceTaintRule that adds it, "" if none."""

    taint: DeviceTaint
    rule: str = ""

    def __str__(self) -> str:
        return f"{format_taint(self.taint)}{f' (rule {self.rule})' if self.rule else ''}"


class DeviceContent:
    """What selectors and requests see of a device, neither its name nor its pool: identical devices share it.

    Derived for each device again, this took a fifth of a search that finds the first device.
    """

    def __init__(self, device: Device, driver: str) -> None:
        self._device = device
        self._driver = driver

    @cached_property
    def cel_device(self) -> CelDevice:
        """The device as selectors see it."""
        from kframework.plugins.dynamic_resources.device_selectors import CelDevice as Subject  # it imports CEL

        device = self._device
        attributes = {name: msgspec.to_builtins(attribute) for name, attribute in device.attributes.items()}
        capacity = {name: str(amount.value) for name, amount in device.capacity.items()}
        return Subject(self._driver, attributes, capacity, bool(device.allow_multiple_allocations))

    @cached_property
    def capacity(self) -> Mapping[str, int]:
        """The amount of each capacity, in nanos."""
        return {name: nano(capacity.value) for name, capacity in self._device.capacity.items()}

    @cached_property
    def default_amounts(self) -> Amounts | None:
        """The consumption of a request without capacities; None if the policy does not allow it."""
        return consumed_amounts(self._device.capacity, {})


#: The contents of devices, as long as some slice has one.
_contents: WeakValueDictionary[bytes, DeviceContent] = WeakValueDictionary()


def share_content(device: Device, driver: str) -> DeviceContent:
    """Find what identical devices have in common, or create it."""
    shared = bool(device.allow_multiple_allocations)
    key = msgspec.json.encode((driver, shared, device.attributes, device.capacity))
    content = _contents.get(key)
    if content is None:
        content = _contents[key] = DeviceContent(device, driver)
    return content


class PoolDevice:
    """One device of a slice.

    `shared` devices may be allocated several times, within their capacity. `local` is whether an allocation ties its
    users to the node. `consumes` are amounts of the pool's counters, `access` the nodes that can access it.
    """

    def __init__(self, device: Device, slice_view: SliceView, rules: Iterable[DeviceTaintRule]) -> None:
        self.object: Device = device
        self.slice: SliceView = slice_view
        self.id: DeviceId = DeviceId(*slice_view.pool, device.name)
        self.shared: bool = bool(device.allow_multiple_allocations)
        self.content: DeviceContent = share_content(device, self.id.driver)
        by_rules = (
            AppliedTaint(rule.spec.taint, rule.metadata.name) for rule in rules if selects_device(rule, self.id)
        )
        self.taints: tuple[AppliedTaint, ...] = tuple(
            each
            for each in (*map(AppliedTaint, device.taints), *by_rules)
            if each.taint.effect in ("NoSchedule", "NoExecute")
        )
        self.consumes: Counters = {
            (each.counter_set, name): nano(counter.value)
            for each in device.consumes_counters
            for name, counter in each.counters.items()
        }
        self.access: NodeAccess = slice_view.access
        if slice_view.per_device:
            self.access = NodeAccess(device.node_name, device.all_nodes, device.node_selector)

    @property
    def capacity(self) -> Mapping[str, int]:
        """The amount of each capacity, in nanos."""
        return self.content.capacity

    def requested_amounts(self, requested: Mapping[str, RawQuantity]) -> Mapping[str, RawQuantity]:
        """Return requested amounts under the names that the device has for its capacities; others keep theirs."""
        return {self._own_name(name, self.object.capacity): amount for name, amount in requested.items()}

    def attribute(self, name: str) -> DeviceAttribute | None:
        """Return an attribute by its qualified name."""
        return self.object.attributes.get(self._own_name(name, self.object.attributes))

    def _own_name(self, name: str, names: Container[str]) -> str:
        """Return the device's form of a name: a name in the driver's domain may be stored with or without it."""
        if name in names:
            return name
        other = name.removeprefix(f"{self.id.driver}/") if "/" in name else f"{self.id.driver}/{name}"
        return other if other in names else name

    @property
    def local(self) -> bool:
        """Whether its users are tied to the node where it is allocated."""
        return self.access.node_name is not None or bool(self.object.binds_to_node)


class NodeAccess:
    """The nodes that can access something: one by name, all, or those that match a selector."""

    def __init__(self, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> None:
        self.node_name = node_name
        self.selector = selector
        self.all_nodes: bool = bool(all_nodes)

    @property
    def is_specified(self) -> bool:
        return bool(self.node_name) or self.all_nodes or self.selector is not None

    @cached_property
    def _terms(self) -> NodeSelectorTerms:
        return NodeSelectorTerms(() if self.selector is None else self.selector.node_selector_terms)

    def matches(self, node: NodeInfo) -> bool:
        """Return whether a node has access; raises SelectorError for an invalid selector."""
        if self.node_name:
            return node.name == self.node_name
        if self.all_nodes:
            return True
        for error in self._terms.errors:
            raise error
        return self._terms.matches(node.labels, node.name)


class SliceView:
    """A parsed slice, with the taints that rules add to its devices."""

    def __init__(self, resource_slice: ResourceSlice, rules: Iterable[DeviceTaintRule] = ()) -> None:
        spec = resource_slice.spec
        self.name: str = resource_slice.metadata.name
        self.pool: PoolId = PoolId(spec.driver, spec.pool.name)
        self.generation: int = spec.pool.generation
        self.slices_in_pool: int = spec.pool.resource_slice_count
        self.per_device: bool = bool(spec.per_device_node_selection)
        self.access: NodeAccess = NodeAccess(spec.node_name, spec.all_nodes, spec.node_selector)
        self.counter_sets: tuple[CounterSet, ...] = spec.shared_counters
        rules = [rule for rule in rules if selects_pool(rule, self.pool)]
        self.devices: tuple[PoolDevice, ...] = tuple(PoolDevice(device, self, rules) for device in spec.devices)

    @property
    def node_name(self) -> str:
        """The only node that can access its devices, "" if there may be others, or if it has counters."""
        return "" if self.counter_sets else self.access.node_name or ""

    def is_accessible_from(self, node: NodeInfo) -> bool:
        """Return whether a node can access any of it; SelectorError for an invalid selector.

        Counters are needed on every node that can access a device.
        """
        if self.counter_sets:
            return True
        if self.access.is_specified:
            return self.access.matches(node)
        return self.per_device and any(device.access.matches(node) for device in self.devices)


_ALL_DEVICES = DeviceTaintSelector()


def selects_pool(rule: DeviceTaintRule, pool: PoolId) -> bool:
    """Return whether a rule selects devices of a pool: any without a selector, as in kube-scheduler."""
    selector = rule.spec.device_selector or _ALL_DEVICES
    return selector.driver in (None, pool.driver) and selector.pool in (None, pool.pool)


def selects_device(rule: DeviceTaintRule, device: DeviceId) -> bool:
    """Return whether a rule that selects devices of a pool selects this one."""
    return (rule.spec.device_selector or _ALL_DEVICES).device in (None, device.device)
