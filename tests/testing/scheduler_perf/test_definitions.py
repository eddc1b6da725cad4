"""scheduler_perf's files as they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.testing.scheduler_perf.definitions import (
    Barrier,
    CreateNodes,
    CreatePodGroups,
    CreatePods,
    CreatePodSets,
    Sleep,
    WaitForPodGroups,
    read,
    select_definitions,
)
from tests.testing.scheduler_perf.written import NODE, case, definition, write

NODES = "- {opcode: createNodes, countParam: $nodes}"

TWO = """\
- name: Small
  labels: [all]
  workloadTemplate:
  - {opcode: barrier}
  workloads:
  - {name: 5Nodes, labels: [short]}
  - {name: 500Nodes/1Init, labels: [performance]}
- name: Large
  workloadTemplate:
  - {opcode: barrier}
  workloads:
  - {name: 5Nodes, labels: [performance, short]}
"""


def test_parameters_replace_fields(tmp_path: Path) -> None:
    steps = """\
    - {opcode: createNodes, countParam: $nodes}
    - opcode: createPodSets
      countParam: $sets
      namespacePrefix: ns
      createPodsOp: {opcode: createPods, countParam: $pods}
    - {opcode: createPods, count: 1, steadyStateParam: $steady, durationParam: $long}
    - {opcode: sleep, durationParam: $long}
    - {opcode: barrier}
    """
    workload = "{name: one, params: {nodes: 3, sets: 2, pods: 4, steady: true, long: 1m30s}}"
    nodes, sets, pods, sleep, barrier = definition(tmp_path, steps, workload).operations()
    assert isinstance(nodes, CreateNodes) and nodes.count == 3
    assert isinstance(sets, CreatePodSets) and (sets.count, sets.create_pods_op.count) == (2, 4)
    assert isinstance(pods, CreatePods) and (pods.count, pods.steady_state, pods.duration) == (1, True, "1m30s")
    assert isinstance(sleep, Sleep) and sleep.duration == "1m30s"
    assert isinstance(barrier, Barrier) and barrier.stage_requirement == "Scheduled"


def test_parameters_replace_values_for_templates(tmp_path: Path) -> None:
    steps = """\
    - {opcode: createPodGroups, countParam: $groups, templatePath: group.yaml, templateParams: {size: $size, other: 7}}
    - {opcode: waitForPodGroups, countParam: $groups, namespace: a}
    - {opcode: createPods, countParam: $groups, countMultiplierParam: $size, templateParams: {size: $size}}
    """
    groups, wait, pods = definition(tmp_path, steps, "{name: one, params: {groups: 3, size: 4}}").operations()
    assert isinstance(groups, CreatePodGroups) and groups.count == 3
    assert groups.template_params == {"size": 4, "other": 7}
    assert isinstance(wait, WaitForPodGroups) and wait.count == 3
    assert isinstance(pods, CreatePods) and (pods.pods, pods.template_params) == (12, {"size": 4})


@pytest.mark.parametrize(
    ("steps", "workload", "message"),
    [
        (NODES, "{name: one}", "Case/one: the parameter nodes is not given"),
        (NODES, "{name: one, params: {nodes: many}}", "Case/one: the parameter nodes is 'many', and no int"),
        (NODES, "{name: one, params: {nodes: -1}}", "Case/one: createNodes: invalid count -1"),
        (
            NODES,
            "{name: one, params: {nodes: 1, pods: 2, more: 3}}",
            "Case/one: nothing asks for the parameters more, pods",
        ),
        (
            "- {opcode: createPods, count: 1, collectMetrics: true, skipWaitToCompletion: true}",
            "{name: one}",
            "Case/one: createPods: collectMetrics and skipWaitToCompletion cannot be true at the same time",
        ),
        (
            "- {opcode: createPods, count: 1, steadyState: true, skipWaitToCompletion: true}",
            "{name: one}",
            "Case/one: createPods: steadyState and skipWaitToCompletion cannot be true at the same time",
        ),
        (
            "- {opcode: createPods, count: 1, steadyState: true}",
            "{name: one}",
            "Case/one: createPods: a steady state needs a duration above zero",
        ),
        (
            "- {opcode: createPods, count: 1, steadyState: true, duration: long}",
            "{name: one}",
            'Case/one: createPods: time: invalid duration "long"',
        ),
        (
            "- {opcode: createPods, count: 2, countMultiplierParam: $size}",
            "{name: one, params: {size: -1}}",
            "Case/one: createPods: invalid count -2",
        ),
        (
            "- {opcode: createPods, count: 1, templateParams: {size: $size}}",
            "{name: one, params: {size: large}}",
            "Case/one: the parameter size is 'large', and no int",
        ),
        (
            "- {opcode: createResourceDriver, driverName: d, nodes: '*', maxClaimsPerNode: -1}",
            "{name: one}",
            "Case/one: createResourceDriver: invalid count -1",
        ),
        (
            "- {opcode: createResourceClaims, namespace: n, templatePath: t, countParam: $claims}",
            "{name: one, params: {claims: -1}}",
            "Case/one: createResourceClaims: invalid count -1",
        ),
        (
            "- {opcode: churn, mode: create, templatePaths: []}",
            "{name: one}",
            "Case/one: churn: at least one template is needed",
        ),
        (
            "- {opcode: churn, mode: recreate, templatePaths: [pod.yaml]}",
            "{name: one}",
            "Case/one: churn: number cannot be 0 when mode is recreate",
        ),
    ],
)
def test_invalid_steps_are_rejected(tmp_path: Path, steps: str, workload: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        definition(tmp_path, steps, workload).operations()
    assert str(refused.value) == f"{tmp_path}/performance-config.yaml: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            case("- {opcode: createNodes, number: 1}"),
            ":3: [0].workloadTemplate[0]: Object contains unknown field `number`",
        ),
        (
            case("- {opcode: createResourceDriver, nodes: '*'}"),
            ":3: [0].workloadTemplate[0]: Object missing required field `driverName`",
        ),
        (case("- {opcode: explode}"), ":3: [0].workloadTemplate[0].opcode: Invalid value 'explode'"),
        (case("- {opcode: barrier}", "{name: one, threshold: fast}"), ":5: [0].workloads[0].threshold: "),
        ("- name: [", ":2: while parsing a flow node, did not find expected node content"),
        ("a: 1\n---\nb: 2\n", ":2: expected a single document in the stream, but found another document"),
        (case("- {opcode: barrier}", "{name: one}\n  - {name: one}"), ": Case/one: this name is given twice"),
    ],
    ids=["field", "missing", "opcode", "threshold", "yaml", "documents", "twice"],
)
def test_invalid_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InputError) as refused:
        list(read([str(file)]))
    assert str(refused.value).startswith(f"{file}{message}")


def test_folders_are_searched(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, case("- {opcode: barrier}"))
    assert [each.topic for each in read([str(tmp_path)])] == ["a", "b"]


def test_folder_without_test_cases_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no performance-config\.yaml in this folder"):
        list(read([str(tmp_path)]))


@pytest.mark.parametrize(
    ("globs", "labels", "names"),
    [
        ([], [], ["Small/5Nodes", "Small/500Nodes/1Init", "Large/5Nodes"]),
        (["Small/5Nodes"], [], ["Small/5Nodes"]),
        (["*/5Nodes"], [], ["Small/5Nodes", "Large/5Nodes"]),
        (["Small"], [], ["Small/5Nodes", "Small/500Nodes/1Init"]),
        (["Small", "Large"], ["short"], ["Small/5Nodes", "Large/5Nodes"]),
        ([], ["performance,-short"], ["Small/500Nodes/1Init"]),
        ([], ["performance", "+short"], ["Large/5Nodes"]),
        ([], ["all"], ["Small/5Nodes", "Small/500Nodes/1Init"]),
        ([], ["none"], []),
    ],
)
def test_definitions_are_selected_by_glob_and_label(
    tmp_path: Path, globs: list[str], labels: list[str], names: list[str]
) -> None:
    found = read([str(write(tmp_path, TWO))])
    assert [each.name for each in select_definitions(found, globs, labels)] == names


@pytest.mark.parametrize(
    ("threshold", "floor"), [("", 0.0), (", threshold: 270", 270.0), (", threshold: {perf: 90, other: 30}", 90.0)]
)
def test_thresholds_may_differ_by_topic(tmp_path: Path, threshold: str, floor: float) -> None:
    folder = tmp_path / "perf"
    folder.mkdir()
    one = definition(folder, "- {opcode: barrier}", f"{{name: one{threshold}}}")
    assert one.workload.floor(one.topic) == floor


@pytest.mark.parametrize(
    ("steps", "workload", "why"),
    [
        ("- {opcode: barrier}", "", ""),
        ("- {opcode: createAny, templatePath: node.yaml}", "", ""),
        ("- {opcode: createAny, templatePath: claim.yaml}", "", ""),
        ("- {opcode: createAny, templatePath: rule.yaml}", "", ""),
        ("- {opcode: createAny, templatePath: status.yaml}", "", "there is no ResourcePoolStatusRequest here"),
        (
            "- {opcode: createAny, templatePath: status.yaml}",
            "featureGates: {DRAResourcePoolStatus: true, DRAListTypeAttributes: true}",
            "there is no DRAListTypeAttributes, DRAResourcePoolStatus, ResourcePoolStatusRequest here",
        ),
        ("- {opcode: barrier}", "featureGates: {DRAListTypeAttributes: false, DRAConsumableCapacity: true}", ""),
        (
            "- {opcode: barrier}",
            "params: {numNodeDeclaredFeatures: 5}",
            "numNodeDeclaredFeatures is for Go code that goes with its file",
        ),
    ],
)
def test_unsupported_features_are_named(tmp_path: Path, steps: str, workload: str, why: str) -> None:
    claim = "apiVersion: resource.k8s.io/v1beta2\nkind: ResourceClaim\n"
    rule = "apiVersion: resource.k8s.io/v1alpha3\nkind: DeviceTaintRule\n"
    status = "apiVersion: resource.k8s.io/v1alpha3\nkind: ResourcePoolStatusRequest\n"
    one = definition(tmp_path, steps, f"{{name: one, {workload}}}", node=NODE, claim=claim, rule=rule, status=status)
    assert one.unsupported_reason() == why


def test_workload_may_disable_a_gate_of_its_case(tmp_path: Path) -> None:
    rest = "featureGates: {DRAListTypeAttributes: true}\n"
    steps = "- {opcode: barrier}"
    assert definition(tmp_path, steps, rest=rest).unsupported_reason() == "there is no DRAListTypeAttributes here"
    closed = "{name: one, featureGates: {DRAListTypeAttributes: false}}"
    assert definition(tmp_path, steps, closed, rest).unsupported_reason() == ""
