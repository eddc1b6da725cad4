"""Files that describe the devices of a synthetic cluster by pattern, for users without hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kframework.errors import InputError, InputErrors
from kframework.objects import CapacityRange, CapacityRequestPolicy, DeviceCapacity, DeviceTaint, RawQuantity
from kframework.objects.codec import locate_decode_error
from kframework.objects.manifest import FaultyObject, ObjectLocation, create_errors, parse_documents, read_source
from kframework.objects.problem import FieldPath, Problem
from kframework.objects.validation import quantity_problem

API_VERSION, KIND = "kframework.dev/v1", "Devices"

#: Placeholders in attributes and names of pools, for the node's name and the device's number.
NODE, INDEX = "{node}", "{index}"

#: The maximum number of devices of a pool here: more than any node has, and few enough to be created in a moment.
MAX_DEVICES = 10_000

# The API's limits (resource.k8s.io/v1 in Kubernetes 1.36).
_MAX_ATTRIBUTES = 32
_MAX_COUNTERS = 32
_MAX_TAINTS = 16
_MAX_CONDITIONS = 4
_MAX_DRIVER_LENGTH = 63
_EFFECTS = ("None", "NoSchedule", "NoExecute")

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DEVICE_NAME = re.compile(_LABEL)
_DRIVER_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED_NAME = re.compile(rf"({_LABEL}(\.{_LABEL})*/)?[A-Za-z_][A-Za-z0-9_]{{0,31}}")


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A mapping with these fields and no others."""


class Range(CapacityRange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's, with no other fields."""


class RequestPolicy(CapacityRequestPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's, with no other fields."""

    valid_range: Range | None = None


class PatternCapacity(DeviceCapacity, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's, with no other fields."""

    request_policy: RequestPolicy | None = None


class PatternTaint(DeviceTaint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's, with no other fields."""


class VersionValue(_Strict, frozen=True, kw_only=True):
    """An attribute that is a semantic version; others have the types of YAML."""

    version: str


AttributeValue = str | int | bool | VersionValue
Attributes = dict[str, AttributeValue | tuple[AttributeValue, ...]]
CapacityValue = RawQuantity | PatternCapacity
Capacities = dict[str, CapacityValue | tuple[CapacityValue, ...]]


class Partition(_Strict, frozen=True, kw_only=True):
    """`count` equal partitions of a device, with its attributes and their own, and the counters that each consumes."""

    name: str
    count: int = 1
    counters: dict[str, RawQuantity]
    attributes: Attributes = {}
    capacity: Capacities = {}


class DeviceGroup(_Strict, frozen=True, kw_only=True):
    """`count` equal devices, called `name-0`, `name-1`, ...

    If a value is a list, each device has one element, in turn. `counters` are shared by the partitions; the device as a
    whole consumes all of them.
    """

    name: str
    count: int = 1
    attributes: Attributes = {}
    capacity: Capacities = {}
    allow_multiple_allocations: bool = False
    taints: tuple[PatternTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    counters: dict[str, RawQuantity] = {}
    partitions: tuple[Partition, ...] = ()

    @property
    def devices(self) -> int:
        """The number of devices, including partitions."""
        return self.count * (1 + sum(partition.count for partition in self.partitions))


class Pattern(_Strict, frozen=True, kw_only=True):
    """A driver's pool of devices on every matching node.

    Globs select nodes by name, labels those that have them all. Devices in the network form one pool, which all nodes
    with these labels can reach.
    """

    driver: str
    nodes: str | tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    network_attached: bool = False
    pool: str = NODE
    devices: tuple[DeviceGroup, ...]

    @property
    def globs(self) -> tuple[str, ...]:
        """The globs that names of nodes are to fit; none for all."""
        return (self.nodes,) if isinstance(self.nodes, str) else self.nodes

    @property
    def is_per_node(self) -> bool:
        """Whether the devices differ from node to node."""
        return NODE.encode() in msgspec.json.encode(self.devices)


class ClassSpec(_Strict, frozen=True, kw_only=True):
    """A DeviceClass: the CEL expression that selects its devices, and their extended resource."""

    expression: str
    extended_resource_name: str | None = None


class DevicePatterns(_Strict, frozen=True, kw_only=True):
    """The content of a file."""

    api_version: str = ""
    kind: str = ""
    classes: dict[str, ClassSpec] = {}
    patterns: tuple[Pattern, ...] = ()


class DeviceFile(NamedTuple):
    """The content of a file, and the location of its document."""

    content: DevicePatterns
    location: ObjectLocation

    def error(self, path: FieldPath, message: str) -> InputError:
        """Return an error with the location of the value."""
        return FaultyObject(self.location, "", Problem(path, message)).to_error()


def read(path: str) -> DeviceFile:
    """Read a file; raises InputError if it is unreadable, or for devices that an API server would reject."""
    source = read_source(path)
    documents = [(index, data) for index, data in enumerate(parse_documents(source)) if data is not None]
    if len(documents) != 1:
        message = f"expected one document of kind {KIND} ({API_VERSION}), got {len(documents)}"
        raise InputError(message, file=source.name)
    ((index, data),) = documents
    location = ObjectLocation(source, index, ())
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind != KIND:
        message = f"expected kind {KIND} ({API_VERSION}), got {kind}"
        raise InputError(message, file=source.name, line=location.line(("kind",)))
    try:
        file = DeviceFile(msgspec.convert(data, DevicePatterns), location)
    except msgspec.ValidationError as error:
        raise FaultyObject(location, "", locate_decode_error(error, data)).to_error() from error
    if faulty := [FaultyObject(location, "", problem) for problem in _problems(file.content)]:
        raise InputErrors(create_errors(faulty))
    return file


def _problems(content: DevicePatterns) -> Iterator[Problem]:
    if (content.api_version, content.kind) != (API_VERSION, KIND):
        yield Problem((), f"expected apiVersion {API_VERSION} and kind {KIND}")
    for index, pattern in enumerate(content.patterns):
        yield from _with_prefix(("patterns", index), _pattern_problems(pattern))


def _with_prefix(path: FieldPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    return (problem.with_prefix(path) for problem in problems)


def _pattern_problems(pattern: Pattern) -> Iterator[Problem]:
    if not _DRIVER_NAME.fullmatch(pattern.driver) or len(pattern.driver) > _MAX_DRIVER_LENGTH:
        yield Problem(("driver",), f"{pattern.driver!r} is not a driver name: use one like gpu.example.com")
    if not pattern.pool:
        yield Problem(("pool",), "is empty: omit it for the name of the node")
    if pattern.network_attached and pattern.globs:
        yield Problem(
            ("nodes",), "network-attached devices are selected by labels: use nodeSelector, or omit it for all nodes"
        )
    if pattern.network_attached and NODE in pattern.pool:
        yield Problem(("pool",), "network-attached devices have one pool: set its name")
    if pattern.network_attached and pattern.is_per_node:
        yield Problem(("devices",), f"network-attached devices belong to no node: omit {NODE}")
    if not pattern.devices:
        yield Problem(("devices",), "is empty: describe at least one device")
    for index, group in enumerate(pattern.devices):
        yield from _with_prefix(("devices", index), _group_problems(group))
    if (count := sum(group.devices for group in pattern.devices)) > MAX_DEVICES:
        yield Problem(("devices",), f"a pool has {count} devices, and may have {MAX_DEVICES}: use more pools")


def _group_problems(group: DeviceGroup) -> Iterator[Problem]:
    yield from _label_problems(("name",), group.name)
    yield from _count_problems(group.count)
    yield from _property_problems(group.attributes, group.capacity, group.allow_multiple_allocations)
    if len(group.taints) > _MAX_TAINTS:
        yield Problem(("taints",), f"{len(group.taints)} taints: a device has {_MAX_TAINTS} at most")
    for index, taint in enumerate(group.taints):
        if not taint.key:
            yield Problem(("taints", index), "key is missing")
        if taint.effect not in _EFFECTS:
            yield Problem(("taints", index, "effect"), f"{taint.effect!r} is none of {', '.join(_EFFECTS)}")
    conditions = {
        "bindingConditions": group.binding_conditions,
        "bindingFailureConditions": group.binding_failure_conditions,
    }
    for name, names in conditions.items():
        if len(names) > _MAX_CONDITIONS:
            yield Problem((name,), f"{len(names)} conditions: a device has {_MAX_CONDITIONS} at most")
        if not names and any(conditions.values()):
            yield Problem((), f"{name} is missing: bindingConditions and bindingFailureConditions go together")
    counters = len(group.counters)
    if (counters or group.partitions) and not 0 < counters <= _MAX_COUNTERS:
        yield Problem(("counters",), f"{counters} counters: a device with partitions has 1 to {_MAX_COUNTERS}")
    for name in group.counters:
        yield from _label_problems(("counters", name), name)
    yield from _quantity_problems(("counters",), group.counters.items())
    for index, partition in enumerate(group.partitions):
        yield from _with_prefix(("partitions", index), _partition_problems(partition, group))


def _partition_problems(partition: Partition, group: DeviceGroup) -> Iterator[Problem]:
    yield from _label_problems(("name",), partition.name)
    yield from _count_problems(partition.count)
    yield from _property_problems({**group.attributes, **partition.attributes}, partition.capacity, shared=False)
    if not partition.counters:
        yield Problem(("counters",), "is empty: name the counters that it consumes")
    for name in partition.counters:
        if group.counters and name not in group.counters:
            yield Problem(("counters", name), f"the device has no such counter: it has {', '.join(group.counters)}")
    yield from _quantity_problems(("counters",), partition.counters.items())


def _label_problems(path: FieldPath, name: str) -> Iterator[Problem]:
    if not _DEVICE_NAME.fullmatch(name):
        yield Problem(path, f"{name!r} is not a DNS label: use lowercase letters, digits and hyphens")


def _count_problems(count: int) -> Iterator[Problem]:
    if not 0 < count <= MAX_DEVICES:
        yield Problem(("count",), f"{count} devices: write 1 to {MAX_DEVICES}")


def _property_problems(attributes: Attributes, capacity: Capacities, shared: bool) -> Iterator[Problem]:
    if len(attributes) + len(capacity) > _MAX_ATTRIBUTES:
        count = f"{len(attributes)} attributes and {len(capacity)} capacities"
        yield Problem((), f"{count}: a device has {_MAX_ATTRIBUTES} in all at most")
    for field, values in (("attributes", attributes), ("capacity", capacity)):
        for name, value in values.items():
            if not _QUALIFIED_NAME.fullmatch(name):
                yield Problem(
                    (field, name), f"{name!r} is not a valid name: use one like numaNode or example.com/numaNode"
                )
            if value == ():
                yield Problem((field, name), "the list is empty: add at least one value")
    for name, amount in capacity.items():
        if not isinstance(amount, tuple):
            yield from _capacity_problems(("capacity", name), amount, shared)
            continue
        for index, each in enumerate(amount):
            yield from _capacity_problems(("capacity", name, index), each, shared)


def _capacity_problems(path: FieldPath, capacity: CapacityValue, shared: bool) -> Iterator[Problem]:
    if not isinstance(capacity, PatternCapacity):
        yield from _quantity_problems(path[:-1], [(path[-1], capacity)])
        return
    yield from _quantity_problems(path, [("value", capacity.value)])
    policy = capacity.request_policy
    if policy is None:
        return
    path = (*path, "requestPolicy")
    if not shared:
        yield Problem(path, "applies to devices that several claims share: add allowMultipleAllocations: true")
    yield from _quantity_problems(path, [("default", policy.default)])
    yield from _quantity_problems((*path, "validValues"), enumerate(policy.valid_values))
    if policy.valid_range is not None:
        limits = policy.valid_range
        amounts = (("min", limits.min), ("max", limits.max), ("step", limits.step))
        yield from _quantity_problems((*path, "validRange"), amounts)


def _quantity_problems(path: FieldPath, amounts: Iterable[tuple[str | int, RawQuantity | None]]) -> Iterator[Problem]:
    for name, amount in amounts:
        if amount is not None and (message := quantity_problem(amount)):
            yield Problem((*path, name), message)
