"""What devices there are: slices, which drivers publish (resource.k8s.io/v1, KEP-4381)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, RawQuantity
from kframework.objects.node import NodeSelector


class DeviceAttribute(ApiStruct, frozen=True, kw_only=True):
    """What a device is like in one respect; exactly one of the fields is set."""

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
    """How much of a capacity one allocation consumes; at most one of the last two is set."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct, frozen=True, kw_only=True):
    """How much of something a device has."""

    value: RawQuantity = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True, kw_only=True):
    """How much there is of what partitions of a device share, or how much one of them takes."""

    value: RawQuantity = "0"


class CounterSet(ApiStruct, frozen=True, kw_only=True):
    """What the partitions of one device share, by name."""

    name: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceCounterConsumption(ApiStruct, frozen=True, kw_only=True):
    """What a device takes of a counter set of its pool."""

    counter_set: str = ""
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class DeviceTaint(ApiStruct, frozen=True, kw_only=True):
    """Keeps claims away from a device that do not tolerate it; the effects are None, NoSchedule and NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(ApiStruct, frozen=True, kw_only=True):
    """One device of a slice.

    Attributes and capacities go by qualified names; one without a domain belongs to the domain of the driver. Where it
    can be reached from is said here only if the slice says `per_device_node_selection`.
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
    """The pool that a slice is a part of: complete when there are so many slices of its latest generation."""

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
