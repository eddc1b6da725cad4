"""Slices and classes that are create_devices of patterns for the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kframework.clock import SystemClock
from kframework.errors import InputError
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import (
    ApiObject,
    DeviceAttribute,
    DeviceClass,
    Node,
    ObjectMeta,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from kframework.objects.node_selectors import node_predicate
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.slices import SliceView
from kframework.simulation.device_patterns import read
from kframework.simulation.synthetic_devices import SyntheticDevices, create_devices

NODES = [
    Node(metadata=ObjectMeta(name=name, labels=labels))
    for name, labels in (("gpu-1", {"zone": "a"}), ("gpu-2", {"zone": "b"}), ("cpu-1", {"zone": "a"}))
]

Make = Callable[..., SyntheticDevices]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes what patterns, or a whole file, come to."""

    def making(text: str, *others: ApiObject) -> SyntheticDevices:
        file = tmp_path / "devices.yaml"
        file.write_text(f"apiVersion: kframework.dev/v1\nkind: Devices\n{text}")
        result = create_devices(read(str(file)), [*NODES, *others])
        MemoryCluster(SystemClock(), [*NODES, *result.objects])  # takes them all
        return result

    return making


def slices(result: SyntheticDevices) -> list[ResourceSlice]:
    """List the slices; all are complete pools that a driver might have published."""
    found = [each for each in result.objects if isinstance(each, ResourceSlice)]
    pools: dict[tuple[str, str], list[SliceView]] = {}
    for each in found:
        view = SliceView(each)
        pools.setdefault(view.pool, []).append(view)
    for views in pools.values():
        assert {view.slices_in_pool for view in views} == {len(views)}
        assert Pool(views[0].pool, tuple(views)).is_usable
    return found


PATTERN = "patterns:\n- driver: d\n  {reach}\n  devices:\n  - {{name: g, count: 2}}\n"


@pytest.mark.parametrize(
    ("reach", "nodes"),
    [
        ("nodes: gpu-*", ["gpu-1", "gpu-2"]),
        ("nodes: [cpu-*, '*-2']", ["gpu-2", "cpu-1"]),
        ("nodeSelector: {zone: a}", ["gpu-1", "cpu-1"]),
        ("nodes: gpu-?\n  nodeSelector: {zone: a}", ["gpu-1"]),
        ("pool: '{node}-x'", ["gpu-1", "gpu-2", "cpu-1"]),
    ],
)
def test_pattern_selects_nodes_by_glob_and_labels(make: Make, reach: str, nodes: list[str]) -> None:
    published = slices(make(PATTERN.format(reach=reach)))
    assert [each.spec.node_name for each in published] == nodes
    assert all([device.name for device in each.spec.devices] == ["g-0", "g-1"] for each in published)


def test_slice_has_driver_pool_and_node(make: Make) -> None:
    (published,) = slices(make(PATTERN.format(reach="nodes: gpu-1\n  pool: 'of/{node}'")))
    assert published.metadata.name == "of-gpu-1-d-0"
    assert published.spec.driver == "d"
    assert published.spec.pool == ResourcePool(name="of/gpu-1", generation=1, resource_slice_count=1)


def test_listed_values_alternate_and_placeholders_are_replaced(make: Make) -> None:
    text = """\
patterns:
- driver: d
  nodes: gpu-*
  devices:
  - name: g
    count: 3
    attributes: {numa: [0, 1], uuid: "{node}-{index}", ready: true, driver: {version: 1.2.3}}
    capacity: {memory: [40Gi, {value: 80Gi}]}
"""
    first, second = slices(make(text))
    assert [device.attributes["numa"].int_value for device in first.spec.devices] == [0, 1, 0]
    assert [device.attributes["uuid"].string_value for device in second.spec.devices] == [
        "gpu-2-0",
        "gpu-2-1",
        "gpu-2-2",
    ]
    assert [device.capacity["memory"].value for device in first.spec.devices] == ["40Gi", "80Gi", "40Gi"]
    device = first.spec.devices[2]
    assert device.attributes["ready"] == DeviceAttribute(bool_value=True)
    assert device.attributes["driver"] == DeviceAttribute(version_value="1.2.3")


def test_nodes_share_devices_that_are_the_same(make: Make) -> None:
    first, second, _ = slices(make(PATTERN.format(reach="pool: '{node}'")))
    assert first.spec.devices is second.spec.devices


def test_device_has_all_described_fields(make: Make) -> None:
    text = """\
patterns:
- driver: d
  nodes: gpu-1
  devices:
  - name: g
    capacity: {memory: {value: 8Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi, step: 1Gi}}}}
    allowMultipleAllocations: true
    taints: [{key: k, value: v, effect: NoExecute}]
    bindsToNode: true
    bindingConditions: [ready]
    bindingFailureConditions: [broken]
  - name: plain
"""
    (published,) = slices(make(text))
    device, plain = published.spec.devices
    assert device.allow_multiple_allocations and device.binds_to_node
    policy = device.capacity["memory"].request_policy
    assert policy is not None and policy.valid_range is not None
    assert (policy.default, policy.valid_range.step) == ("1Gi", "1Gi")
    assert [(taint.key, taint.value, taint.effect) for taint in device.taints] == [("k", "v", "NoExecute")]
    assert (device.binding_conditions, device.binding_failure_conditions) == (("ready",), ("broken",))
    assert (plain.allow_multiple_allocations, plain.binds_to_node, plain.taints) == (None, None, ())


@pytest.mark.parametrize(
    ("group", "lengths"),
    [
        ("{name: g, count: 128}", [128]),
        ("{name: g, count: 129}", [128, 1]),
        ("{name: g, count: 129}\n  - {name: h, taints: [{key: k, effect: None}]}", [64, 64, 2]),
        ("{name: g, count: 1300}", [128] * 10 + [20]),
    ],
)
def test_slices_are_split_at_the_limits_of_the_api(make: Make, group: str, lengths: list[int]) -> None:
    published = slices(make(f"patterns:\n- driver: d\n  nodes: gpu-1\n  devices:\n  - {group}\n"))
    assert [len(each.spec.devices) for each in published] == lengths
    assert sorted(published, key=lambda each: each.metadata.name) == published


def test_partitions_consume_counters_of_their_device(make: Make) -> None:
    text = """\
patterns:
- driver: d
  nodes: gpu-1
  devices:
  - name: g
    count: 9
    attributes: {model: A100, part: whole, place: "{index}"}
    capacity: {memory: 80Gi}
    counters: {memory: 80Gi, slices: 7}
    partitions:
    - {name: half, count: 2, counters: {memory: 40Gi, slices: 3}, attributes: {part: half}, capacity: {memory: 40Gi}}
    - {name: slice, count: 7, counters: {memory: 10Gi, slices: 1}, attributes: {part: [a, b]}}
"""
    published = slices(make(text))
    assert [len(each.spec.shared_counters) for each in published] == [8, 1, 0, 0]
    assert [len(each.spec.devices) for each in published] == [0, 0, 64, 26]
    assert {name: amount.value for name, amount in published[0].spec.shared_counters[3].counters.items()} == {
        "memory": "80Gi",
        "slices": 7,
    }
    devices = {device.name: device for each in published for device in each.spec.devices}
    assert len(devices) == 9 * 10
    taken = {
        name: [(each.counter_set, each.counters["slices"].value) for each in devices[name].consumes_counters]
        for name in ("g-3", "g-3-half-1", "g-8-slice-6")
    }
    assert taken == {"g-3": [("g-3", 7)], "g-3-half-1": [("g-3", 3)], "g-8-slice-6": [("g-8", 1)]}
    half = devices["g-3-half-1"]
    said = [half.attributes[name].string_value for name in ("model", "part", "place")]
    assert (said, half.capacity["memory"].value) == (["A100", "half", "3"], "40Gi")
    assert [devices[f"g-0-slice-{n}"].attributes["part"].string_value for n in range(3)] == ["a", "b", "a"]
    assert devices["g-0-slice-0"].capacity == {}


@pytest.mark.parametrize(
    ("selector", "reached"), [("nodeSelector: {zone: a}", ["gpu-1", "cpu-1"]), ("", ["gpu-1", "gpu-2", "cpu-1"])]
)
def test_network_attached_devices_form_one_pool(make: Make, selector: str, reached: list[str]) -> None:
    text = f"networkAttached: true\n  pool: fabric\n  {selector}"
    (published,) = slices(make(PATTERN.format(reach=text)))
    assert published.metadata.name == "fabric-d-0"
    spec = published.spec
    assert spec.node_name is None and bool(spec.all_nodes) is (spec.node_selector is None)
    matches = node_predicate(spec.node_selector) if spec.node_selector is not None else lambda labels, name: True
    names = [node.metadata.name for node in NODES if matches(node.metadata.labels, node.metadata.name)]
    assert names == reached


def test_device_classes_are_created(make: Make) -> None:
    text = "classes:\n  gpu: {expression: 'true', extendedResourceName: example.com/gpu}\n  all: {expression: 'true'}\n"
    gpu, every = make(text).objects
    assert isinstance(gpu, DeviceClass) and isinstance(every, DeviceClass)
    assert (gpu.metadata.name, gpu.spec.extended_resource_name) == ("gpu", "example.com/gpu")
    (selector,) = gpu.spec.selectors
    assert selector.cel is not None and selector.cel.expression == "true"
    assert every.spec.extended_resource_name is None


def test_pattern_that_matches_no_node_is_a_warning(make: Make, tmp_path: Path) -> None:
    result = make(PATTERN.format(reach="nodes: tpu-*"))
    assert result.objects == []
    assert [str(each) for each in result.warnings] == [
        f"{tmp_path}/devices.yaml:4: patterns[0]: matches no node of the cluster files"
    ]


ONE = "{driver: d, nodes: gpu-1, devices: [{name: a}]}"
THERE = ResourceSlice(
    metadata=ObjectMeta(name="s"), spec=ResourceSliceSpec(driver="d", pool=ResourcePool(name="gpu-1"), all_nodes=True)
)


@pytest.mark.parametrize(
    ("text", "others", "message"),
    [
        (
            "classes: {gpu: {expression: 'true'}}\n",
            [DeviceClass(metadata=ObjectMeta(name="gpu"))],
            ":3: classes.gpu: DeviceClass gpu is described in the cluster files already: choose another name",
        ),
        (
            f"patterns:\n- {ONE}\n- {ONE}\n",
            [],
            ":5: patterns[1]: pool d/gpu-1 is described on line 4 already: choose another name",
        ),
        (
            f"patterns:\n- {ONE}\n",
            [THERE],
            ":4: patterns[0]: pool d/gpu-1 is described in the cluster files already: choose another name",
        ),
        (
            "patterns:\n- {driver: d, pool: p, devices: [{name: a}]}\n",
            [],
            ":4: patterns[0]: pool d/p would be on several nodes: write {node} into its name",
        ),
        (
            f"patterns:\n- {ONE}\n- {ONE.replace('driver: d', 'driver: d, pool: gpu')}\n",
            [ResourceSlice(metadata=ObjectMeta(name="gpu-d-0"))],
            ":5: patterns[1]: ResourceSlice gpu-d-0 is described in the cluster files already: choose another name",
        ),
        (
            "patterns:\n- driver: d\n  devices:\n  - {name: a}\n  - {name: a}\n",
            [],
            ":7: patterns[0].devices[1].name: two devices would be called a-0: choose another name",
        ),
        (
            f"patterns:\n- driver: d\n  devices:\n  - {{name: {'a' * 62}}}\n",
            [],
            f":6: patterns[0].devices[0].name: {'a' * 62}-0 is longer than 63 characters: shorten it",
        ),
    ],
    ids=["class", "pool", "published", "several nodes", "slice", "device", "long"],
)
def test_invalid_patterns_are_rejected(
    make: Make, tmp_path: Path, text: str, others: list[ApiObject], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        make(text, *others)
    assert str(refused.value) == f"{tmp_path}/devices.yaml{message}"


def test_two_drivers_may_have_pools_of_one_name(make: Make) -> None:
    result = make(f"patterns:\n- {ONE}\n- {ONE.replace('driver: d', 'driver: e')}\n")
    assert [each.metadata.name for each in result.objects] == ["gpu-1-d-0", "gpu-1-e-0"]
