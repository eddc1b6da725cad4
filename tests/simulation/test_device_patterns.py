"""Files that describe devices by pattern: what is read, and what is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import InputError, InputErrors
from kframework.simulation.device_patterns import VersionValue, read

HEAD = "apiVersion: kframework.dev/v1\nkind: Devices\n"

WHOLE = """\
apiVersion: kframework.dev/v1
kind: Devices
classes:
  gpu: {expression: 'device.driver == "gpu.example.com"', extendedResourceName: example.com/gpu}
patterns:
- driver: gpu.example.com
  nodes: [a*, b*]
  nodeSelector: {gpu: "yes"}
  devices:
  - name: gpu
    count: 8
    attributes: {model: A100, numaNode: [0, 1], ready: true, driverVersion: {version: 1.2.3}}
    capacity: {memory: 80Gi, cores: [{value: 7}, 8]}
    taints: [{key: example.com/broken, effect: NoSchedule}]
    bindingConditions: [ready]
    bindingFailureConditions: [broken]
    counters: {memory: 80Gi}
    partitions:
    - {name: half, count: 2, counters: {memory: 40Gi}, attributes: {kind: half}, capacity: {memory: 40Gi}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "devices.yaml"


def test_device_file_with_all_fields_is_read(file: Path) -> None:
    file.write_text(WHOLE)
    said = read(str(file)).content
    assert said.classes["gpu"].extended_resource_name == "example.com/gpu"
    (pattern,) = said.patterns
    assert (pattern.driver, pattern.globs, pattern.node_selector) == ("gpu.example.com", ("a*", "b*"), {"gpu": "yes"})
    (group,) = pattern.devices
    assert group.devices == 8 * 3
    assert group.attributes == {
        "model": "A100",
        "numaNode": (0, 1),
        "ready": True,
        "driverVersion": VersionValue(version="1.2.3"),
    }
    assert not pattern.is_per_node


def test_devices_may_differ_by_node(file: Path) -> None:
    file.write_text(WHOLE.replace("model: A100", 'model: "{node}"'))
    assert read(str(file)).content.patterns[0].is_per_node


def pattern(text: str) -> str:
    """Write a file with one pattern on lines 4 and 5."""
    return f"{HEAD}patterns:\n- {text}\n"


def group(text: str) -> str:
    """Write a file whose pattern has a group of devices on line 6."""
    return pattern(f"driver: d\n  devices:\n  - {text}")


SHARED = "allowMultipleAllocations: true, capacity: {memory: {value: 1, requestPolicy: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": expected one document of kind Devices (kframework.dev/v1), got 0"),
        (HEAD + "---\n" + HEAD, ": expected one document of kind Devices (kframework.dev/v1), got 2"),
        ("kind: Devices\n", ":1: expected apiVersion kframework.dev/v1 and kind Devices"),
        (HEAD + "patterns: [", ":4: is not YAML: did not find expected node content"),
        (pattern("driver: d\n  nods: a"), ":4: patterns[0]: Object contains unknown field `nods`"),
        (pattern("devices: [{name: a}]"), ":4: patterns[0]: Object missing required field `driver`"),
        (
            pattern("driver: GPU\n  devices: [{name: a}]"),
            ":4: patterns[0].driver: 'GPU' is not a driver name: use one like gpu.example.com",
        ),
        (pattern("driver: d\n  devices: []"), ":5: patterns[0].devices: is empty: describe at least one device"),
        (
            pattern("driver: d\n  devices: [{name: a, count: 9000}, {name: b, count: 1001}]"),
            ":5: patterns[0].devices: a pool has 10001 devices, and may have 10000: use more pools",
        ),
        (
            pattern("{driver: d, pool: '', devices: [{name: a}]}"),
            ":4: patterns[0].pool: is empty: omit it for the name of the node",
        ),
        (
            pattern("{driver: d, networkAttached: true, pool: p, nodes: n1, devices: [{name: a}]}"),
            (
                ":4: patterns[0].nodes: network-attached devices are selected by labels: "
                "use nodeSelector, or omit it for all nodes"
            ),
        ),
        (
            pattern("{driver: d, networkAttached: true, devices: [{name: a}]}"),
            ":4: patterns[0].pool: network-attached devices have one pool: set its name",
        ),
        (
            pattern("{driver: d, networkAttached: true, pool: p, devices: [{name: a, attributes: {a: '{node}'}}]}"),
            ":4: patterns[0].devices: network-attached devices belong to no node: omit {node}",
        ),
        (group("count: 1"), ":6: patterns[0].devices[0]: Object missing required field `name`"),
        (
            group("name: g_0"),
            ":6: patterns[0].devices[0].name: 'g_0' is not a DNS label: use lowercase letters, digits and hyphens",
        ),
        (group("{name: g, count: 0}"), ":6: patterns[0].devices[0].count: 0 devices: write 1 to 10000"),
        (
            group("{name: g, count: 8.5}"),
            ":6: patterns[0].devices[0].count: expected an integer, got a number",
        ),
        (
            group("{name: g, attributes: {a-b: 1}}"),
            (
                ":6: patterns[0].devices[0].attributes.a-b: 'a-b' is not a valid name: "
                "use one like numaNode or example.com/numaNode"
            ),
        ),
        (
            group("{name: g, attributes: {a: []}}"),
            ":6: patterns[0].devices[0].attributes.a: the list is empty: add at least one value",
        ),
        (
            group(f"{{name: g, attributes: {{{', '.join(f'a{n}: {n}' for n in range(33))}}}}}"),
            ":6: patterns[0].devices[0]: 33 attributes and 0 capacities: a device has 32 in all at most",
        ),
        (
            group("{name: g, capacity: {memory: [1Gi, lots]}}"),
            (
                ":6: patterns[0].devices[0].capacity.memory[1]: 'lots' is not a quantity: "
                "write a number and a suffix, like 500m, 2 or 1.5Gi"
            ),
        ),
        (
            group("{name: g, capacity: {memory: {value: -1}}}"),
            ":6: patterns[0].devices[0].capacity.memory.value: -1 is negative",
        ),
        (
            group("{name: g, capacity: {memory: {value: 1, requestPolicy: {default: 1}}}}"),
            (
                ":6: patterns[0].devices[0].capacity.memory.requestPolicy: "
                "applies to devices that several claims share: add allowMultipleAllocations: true"
            ),
        ),
        (
            group(f"{{name: g, {SHARED}{{validValues: [1, -2]}}}}}}}}"),
            ":6: patterns[0].devices[0].capacity.memory.requestPolicy.validValues[1]: -2 is negative",
        ),
        (
            group(f"{{name: g, {SHARED}{{validRange: {{min: 1, step: -2}}}}}}}}}}"),
            ":6: patterns[0].devices[0].capacity.memory.requestPolicy.validRange.step: -2 is negative",
        ),
        (
            group("{name: g, taints: [{effect: NoSchedule}]}"),
            ":6: patterns[0].devices[0].taints[0]: key is missing",
        ),
        (
            group("{name: g, taints: [{key: k, effect: Never}]}"),
            ":6: patterns[0].devices[0].taints[0].effect: 'Never' is none of None, NoSchedule, NoExecute",
        ),
        (
            group("{name: g, taints: [{key: k, effekt: NoSchedule}]}"),
            ":6: patterns[0].devices[0].taints[0]: Object contains unknown field `effekt`",
        ),
        (
            group(f"{{name: g, taints: [{', '.join(['{key: k, effect: None}'] * 17)}]}}"),
            ":6: patterns[0].devices[0].taints: 17 taints: a device has 16 at most",
        ),
        (
            group("{name: g, bindingConditions: [ready]}"),
            (
                ":6: patterns[0].devices[0]: bindingFailureConditions is missing: "
                "bindingConditions and bindingFailureConditions go together"
            ),
        ),
        (
            group("{name: g, bindingConditions: [a, b, c, d, e], bindingFailureConditions: [f]}"),
            ":6: patterns[0].devices[0].bindingConditions: 5 conditions: a device has 4 at most",
        ),
        (
            group("{name: g, partitions: [{name: p, counters: {memory: 1}}]}"),
            ":6: patterns[0].devices[0].counters: 0 counters: a device with partitions has 1 to 32",
        ),
        (
            group("{name: g, counters: {some_memory: 1}}"),
            (
                ":6: patterns[0].devices[0].counters.some_memory: 'some_memory' is not a DNS label: "
                "use lowercase letters, digits and hyphens"
            ),
        ),
        (
            group("{name: g, counters: {memory: 2}, partitions: [{name: p, counters: {memroy: 1}}]}"),
            ":6: patterns[0].devices[0].partitions[0].counters.memroy: the device has no such counter: it has memory",
        ),
        (
            group("{name: g, counters: {memory: 2}, partitions: [{name: p, counters: {}}]}"),
            ":6: patterns[0].devices[0].partitions[0].counters: is empty: name the counters that it consumes",
        ),
        (
            group("{name: g, counters: {memory: 2}, partitions: [{name: p, counters: {memory: -1}}]}"),
            ":6: patterns[0].devices[0].partitions[0].counters.memory: -1 is negative",
        ),
    ],
)
def test_invalid_patterns_are_rejected(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read(str(file))
    assert str(refused.value) == f"{file}{message}"


def test_missing_device_file_raises() -> None:
    with pytest.raises(InputError, match="none: cannot be read: No such file or directory"):
        read("none")


def test_file_of_another_kind_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "devices.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
    with pytest.raises(InputError, match=r":2: expected kind Devices .*, got Node"):
        read(str(file))


def test_every_invalid_pattern_is_named(file: Path) -> None:
    file.write_text(group("{name: G, count: 0}"))
    with pytest.raises(InputErrors) as refused:
        read(str(file))
    assert [error.path for error in refused.value.errors] == [
        "patterns[0].devices[0].name",
        "patterns[0].devices[0].count",
    ]
