"""Slices and classes of synthetic devices, which a file describes for the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from kframework.errors import InputError
from kframework.objects import (
    ApiObject,
    CELSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceClassSpec,
    DeviceCounterConsumption,
    DeviceSelector,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    RawQuantity,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from kframework.objects.problem import FieldPath
from kframework.simulation.device_patterns import (
    INDEX,
    NODE,
    Attributes,
    AttributeValue,
    Capacities,
    DeviceFile,
    DeviceGroup,
    Pattern,
    PatternCapacity,
    VersionValue,
)

V = TypeVar("V")

# Limits of a slice (resource.k8s.io/v1 in Kubernetes 1.36), and of the length of a device's name.
_MAX_DEVICES = 128
#: If some devices have taints or consume counters.
_MAX_ADVANCED_DEVICES = 64
_MAX_COUNTER_SETS = 8
_MAX_NAME_LENGTH = 63


class SyntheticDevices(NamedTuple):
    """The objects that a file describes, and its probable mistakes: patterns that match no node."""

    objects: list[ApiObject]
    warnings: list[InputError]


def create_devices(file: DeviceFile, objects: Iterable[ApiObject]) -> SyntheticDevices:
    """Create the classes and slices of a file; InputError for names that are too long, or exist already."""
    return _DeviceBuilder(file, objects).build()


class _DeviceBuilder:
    def __init__(self, file: DeviceFile, objects: Iterable[ApiObject]) -> None:
        self._file = file
        self._nodes: list[Node] = []
        #: The path in the file of each class, pool and slice; None for those among the objects.
        self._known: dict[tuple[str, str], FieldPath | None] = {}
        for each in objects:
            match each:
                case Node():
                    self._nodes.append(each)
                case DeviceClass():
                    self._known["DeviceClass", each.metadata.name] = None
                case ResourceSlice(spec=spec):
                    self._known["pool", f"{spec.driver}/{spec.pool.name}"] = None
                    self._known["ResourceSlice", each.metadata.name] = None

    def build(self) -> SyntheticDevices:
        content, objects, warnings = self._file.content, list[ApiObject](), list[InputError]()
        for name, device_class in content.classes.items():
            self._register("DeviceClass", name, ("classes", name))
            selector = DeviceSelector(cel=CELSelector(expression=device_class.expression))
            spec = DeviceClassSpec(selectors=(selector,), extended_resource_name=device_class.extended_resource_name)
            objects.append(DeviceClass(metadata=ObjectMeta(name=name), spec=spec))
        for index, pattern in enumerate(content.patterns):
            path = ("patterns", index)
            slices = [*self._slices(pattern, path)]
            if not slices:
                warnings.append(self._file.error(path, "matches no node of the cluster files"))
            for each in slices:
                self._register("ResourceSlice", each.metadata.name, path)
            objects += slices
        return SyntheticDevices(objects, warnings)

    def _slices(self, pattern: Pattern, path: FieldPath) -> Iterator[ResourceSlice]:
        if pattern.network_attached:
            self._register("pool", f"{pattern.driver}/{pattern.pool}", path)
            base_spec = ResourceSliceSpec(node_selector=_selector(pattern), all_nodes=not pattern.node_selector or None)
            yield from _pool(pattern, pattern.pool, base_spec, self._contents(pattern, "", path))
            return
        is_per_node, contents = pattern.is_per_node, list[ResourceSliceSpec]()
        for name in (node.metadata.name for node in self._nodes if _matches(pattern, node)):
            pool = pattern.pool.replace(NODE, name)
            self._register("pool", f"{pattern.driver}/{pool}", path)
            if is_per_node or not contents:  # else the nodes share them, which saves most of the memory
                contents = self._contents(pattern, name, path)
            yield from _pool(pattern, pool, ResourceSliceSpec(node_name=name), contents)

    def _register(self, what: str, name: str, path: FieldPath) -> None:
        if (what, name) in self._known:
            before = self._known[what, name]
            if before == path:
                raise self._file.error(path, f"{what} {name} would be on several nodes: write {NODE} into its name")
            where = "in the cluster files" if before is None else f"on line {self._file.location.line(before)}"
            raise self._file.error(path, f"{what} {name} is described {where} already: choose another name")
        self._known[what, name] = path

    def _contents(self, pattern: Pattern, node_name: str, path: FieldPath) -> list[ResourceSliceSpec]:
        devices, counter_sets = list[Device](), list[CounterSet]()
        names = set[str]()
        for index, group in enumerate(pattern.devices):
            for device in _devices(group, node_name):
                where = (*path, "devices", index, "name")
                if device.name in names:
                    message = f"two devices would be called {device.name}: choose another name"
                    raise self._file.error(where, message)
                if len(device.name) > _MAX_NAME_LENGTH:
                    message = f"{device.name} is longer than {_MAX_NAME_LENGTH} characters: shorten it"
                    raise self._file.error(where, message)
                names.add(device.name)
                devices.append(device)
            if group.counters:
                counters = _counters(group.counters)
                counter_sets += (CounterSet(name=f"{group.name}-{n}", counters=counters) for n in range(group.count))
        advanced = any(device.taints or device.consumes_counters for device in devices)
        return [
            *(ResourceSliceSpec(shared_counters=batch) for batch in _batches(counter_sets, _MAX_COUNTER_SETS)),
            *(
                ResourceSliceSpec(devices=batch)
                for batch in _batches(devices, _MAX_ADVANCED_DEVICES if advanced else _MAX_DEVICES)
            ),
        ]


def _matches(pattern: Pattern, node: Node) -> bool:
    name, labels = node.metadata.name, node.metadata.labels
    is_named = not pattern.globs or any(fnmatchcase(name, glob) for glob in pattern.globs)
    return is_named and pattern.node_selector.items() <= labels.items()


def _selector(pattern: Pattern) -> NodeSelector | None:
    if not pattern.node_selector:
        return None
    requirements = (
        NodeSelectorRequirement(key=key, operator="In", values=(value,)) for key, value in pattern.node_selector.items()
    )
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=tuple(requirements)),))


def _pool(
    pattern: Pattern, pool: str, base_spec: ResourceSliceSpec, contents: Sequence[ResourceSliceSpec]
) -> Iterator[ResourceSlice]:
    """Publish a pool in slices whose names have its order."""
    pool_spec = ResourcePool(name=pool, generation=1, resource_slice_count=len(contents))
    digits = len(str(len(contents) - 1))
    for number, content in enumerate(contents):
        spec = replace(
            base_spec,
            driver=pattern.driver,
            pool=pool_spec,
            devices=content.devices,
            shared_counters=content.shared_counters,
        )
        name = f"{pool.replace('/', '-')}-{pattern.driver}-{number:0{digits}}"
        yield ResourceSlice(metadata=ObjectMeta(name=name), spec=spec)


def _batches(items: Sequence[V], length: int) -> Iterator[tuple[V, ...]]:
    return (tuple(items[begin : begin + length]) for begin in range(0, len(items), length))


def _devices(group: DeviceGroup, node_name: str) -> Iterator[Device]:
    """Create the devices of a group, each before its partitions."""
    for index in range(group.count):
        name = f"{group.name}-{index}"
        whole = Device(
            name=name,
            attributes=_attributes(group.attributes, index, index, node_name),
            capacity=_capacity(group.capacity, index),
            consumes_counters=(_consumption(name, group.counters),) if group.counters else (),
            taints=group.taints,
            binds_to_node=group.binds_to_node or None,
            binding_conditions=group.binding_conditions,
            binding_failure_conditions=group.binding_failure_conditions,
            allow_multiple_allocations=group.allow_multiple_allocations or None,
        )
        yield whole
        # Partitions are like their device, except for their own fields.
        for partition in group.partitions:
            for number in range(partition.count):
                own = _attributes(partition.attributes, number, index, node_name)
                yield replace(
                    whole,
                    name=f"{name}-{partition.name}-{number}",
                    attributes={**whole.attributes, **own},
                    capacity=_capacity(partition.capacity, number),
                    consumes_counters=(_consumption(name, partition.counters),),
                )


def _consumption(counter_set: str, amounts: Mapping[str, RawQuantity]) -> DeviceCounterConsumption:
    return DeviceCounterConsumption(counter_set=counter_set, counters=_counters(amounts))


def _counters(amounts: Mapping[str, RawQuantity]) -> dict[str, Counter]:
    return {name: Counter(value=amount) for name, amount in amounts.items()}


def _attributes(attributes: Attributes, turn: int, index: int, node_name: str) -> dict[str, DeviceAttribute]:
    """Return a device's attributes: `turn` picks one of several values, `index` replaces `{index}`."""
    picked = {
        name: value[turn % len(value)] if isinstance(value, tuple) else value for name, value in attributes.items()
    }
    return {name: _attribute(value, index, node_name) for name, value in picked.items()}


def _attribute(value: AttributeValue, index: int, node_name: str) -> DeviceAttribute:
    match value:
        case bool():
            return DeviceAttribute(bool_value=value)
        case int():
            return DeviceAttribute(int_value=value)
        case VersionValue():
            return DeviceAttribute(version_value=value.version)
    return DeviceAttribute(string_value=value.replace(NODE, node_name).replace(INDEX, str(index)))


def _capacity(capacities: Capacities, turn: int) -> dict[str, DeviceCapacity]:
    picked = {
        name: value[turn % len(value)] if isinstance(value, tuple) else value for name, value in capacities.items()
    }
    return {
        name: each if isinstance(each, PatternCapacity) else DeviceCapacity(value=each) for name, each in picked.items()
    }
