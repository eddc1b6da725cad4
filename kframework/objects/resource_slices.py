"""Devices in slices, which drivers publish, and rules that taint them (resource.k8s.io/v1, KEP-4381, KEP-5055)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, Condition, RawQuantity
from kframework.objects.node import NodeSelector, Taint


class DeviceAttribute(ApiStruct, frozen=True, kw_only=True):
    """An attribute of a device; exactly one of the fields is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    ints: tuple[int, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class CapacityRange(ApiStruct, frozen=True, kw_only=True):
    """The amounts that may be consumed at a time: from `min`, up to `max` if there is one, in steps."""

    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True, kw_only=True):
    """A rule for how much of a capacity one allocation consumes; at most one of the last two is set."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """A capacity of a device."""

    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """An amount shared by the partitions of a device, or consumed by one of them."""

    value: RawQuantity = "0"


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """The counters shared by the partitions of one device, by name."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """A device's consumption of a counter set of its pool."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(Taint, frozen=True, kw_only=True):
    """Keeps claims away from a device that do not tolerate it; the effects are None, NoSchedule and NoExecute."""


class Device(ApiStruct, frozen=True, kw_only=True):
    """One device of a slice.

    Attributes and capacities have qualified names; one without a domain belongs to the domain of the driver. The nodes
    that can reach it are set here only if the slice has `per_device_node_selection`.
    """

    name: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiStruct, frozen=True, kw_only=True):
    """The pool of a slice; it is complete when its latest generation has `resource_slice_count` slices."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a slice: devices or counter sets, and in exactly one way from which nodes they can be reached."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiObject, frozen=True, kw_only=True):
    """Devices of one pool of a driver."""

    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceTaintSelector(ApiStruct, frozen=True, kw_only=True):
    """The devices of a driver, a pool, or a name; all of these that are set must be the device's."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a rule; its taint applies to all devices if it has no selector."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a rule, which the controller that evicts pods writes."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(ApiObject, frozen=True, kw_only=True):
    """A taint for all devices that a selector matches, as if their drivers had published it."""

    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()
