"""Cluster files are read, and ignored objects are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.cli.logs import logging_to_stderr
from kframework.errors import InputError, InputErrors
from kframework.objects import Node, ResourceSlice
from kframework.simulation.inputs import load, read_admitted, read_cluster, report_groups
from kframework.values.feature_gates import FeatureGates


def test_ignored_kinds_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    settings = "kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration"
    kinds = ["v1, kind: Node", "networking.k8s.io/v1, kind: Ingress", settings]
    file.write_text("\n---\n".join(f"{{apiVersion: {kind}, metadata: {{name: n1}}}}" for kind in kinds))
    with logging_to_stderr():
        assert [type(each) for each in read_cluster([str(file)]).objects] == [Node]
    assert capsys.readouterr().err.splitlines() == [
        "notice: pass a KubeSchedulerConfiguration with --config",
        "notice: ignored, as this scheduler does not read them: 1 Ingress (networking.k8s.io/v1)",
    ]
    assert read_cluster([]).objects == []


def test_files_without_objects_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("# nothing yet\n")
    with logging_to_stderr():
        assert read_cluster([str(file)]).objects == []
    assert capsys.readouterr().err == f"warning: no objects in {file}\n"


ANOTHER, LATER = (
    "ignored, as another version than",
    "ignored without the feature gate GenericWorkload of Kubernetes 1.37:",
)


@pytest.mark.parametrize(
    ("kind", "notice"),
    [
        ("v1, kind: pod", "ignored, as this scheduler does not read them: 1 pod (v1; did you mean Pod?)"),
        (
            "scheduling.k8s.io/v1beta1, kind: PriorityClass",
            f"{ANOTHER} scheduling.k8s.io/v1: 1 PriorityClass (scheduling.k8s.io/v1beta1); change its apiVersion",
        ),
        (
            "extensions/v1beta1, kind: ReplicaSet",
            f"{ANOTHER} apps/v1: 1 ReplicaSet (extensions/v1beta1); change its apiVersion",
        ),
        (
            "scheduling.k8s.io/v1alpha2, kind: Workload",
            f"{ANOTHER} scheduling.k8s.io/v1beta1: 1 Workload (scheduling.k8s.io/v1alpha2); change its apiVersion",
        ),
        (
            "v1, kind: Config",
            "a kubeconfig names a cluster and has no objects: pass it to kframework run with --kubeconfig",
        ),
    ],
)
def test_notice_of_an_ignored_kind_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, notice: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{{apiVersion: {kind}, metadata: {{name: n1}}}}")
    with logging_to_stderr():
        assert read_cluster([str(file)]).objects == []
    assert capsys.readouterr().err == f"notice: {notice}\n"


MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {schedulingGroup: {podGroupName: g}, containers: [{name: c, image: i}]}
---
"""
GROUP = """
apiVersion: scheduling.k8s.io/%s
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
"""


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (MEMBER % "a" + MEMBER % "b", "spec.schedulingGroup of 2 pods"),
        (MEMBER % "a" + GROUP % "v1beta1", "1 PodGroup, spec.schedulingGroup of 1 pod"),
        (MEMBER % "a" + GROUP % "v1alpha3", "1 PodGroup, spec.schedulingGroup of 1 pod"),
    ],
)
def test_groups_are_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, groups: str) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    with logging_to_stderr():
        assert len(load(file)) == 2
    expected = f"notice: {LATER} {groups}; the pods of groups are scheduled one by one\n"
    assert capsys.readouterr().err == expected


FIELDS = (
    "resourceClaims: [{name: gpu, resourceClaimName: c}], schedulingConstraints: {topology: [{key: rack}]}, "
    "parentCompositePodGroupName: root, workloadRef: {workloadName: w, templateName: t}"
)
PARENT = ("CompositePodGroup", "parentCompositePodGroupName")


@pytest.mark.parametrize(
    ("gates", "ignored"),
    [
        (("DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling", "CompositePodGroup"), []),
        (("DRAWorkloadResourceClaims", "TopologyAwareWorkloadScheduling"), [PARENT]),
        (("TopologyAwareWorkloadScheduling",), [("DRAWorkloadResourceClaims", "resourceClaims"), PARENT]),
        (("DRAWorkloadResourceClaims",), [("TopologyAwareWorkloadScheduling", "schedulingConstraints"), PARENT]),
    ],
)
def test_fields_of_groups_whose_gate_is_off_are_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], gates: tuple[str, ...], ignored: list[tuple[str, str]]
) -> None:
    file = tmp_path / "cluster.yaml"
    text = (GROUP % "v1beta1").replace("minCount: 2}}}", f"minCount: 2}}}}, {FIELDS}}}")
    file.write_text(text + "---" + text.replace("name: g}", "name: h}"))
    settings = dict.fromkeys(("GenericWorkload", *gates), True)
    with logging_to_stderr():
        report_groups(read_cluster([str(file)]), FeatureGates(settings=settings))
    lines = [f"ignored without the feature gate {gate}: spec.{field} of 2 PodGroups" for gate, field in ignored]
    assert capsys.readouterr().err == "".join(f"notice: {line}\n" for line in lines)


MISSPELT = """\
apiVersion: v1
kind: Node
metadata: {name: n1, lables: {}}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: web
    annotations: {tolerrations: mine}
  spec:
    containers:
    - name: c
      comand: [a]
      image: i
    tolerrations: []
"""

UNKNOWN = [
    ':3: Node n1: unknown field "metadata.lables"; did you mean "labels"?',
    ':16: Pod default/web: unknown field "spec.containers[0].comand"; did you mean "command"?',
    ':18: Pod default/web: unknown field "spec.tolerrations"; did you mean "tolerations"?',
]


def test_unknown_fields_are_reported_with_their_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MISSPELT)
    with logging_to_stderr():
        assert len(read_cluster([str(file)]).objects) == 2
    assert capsys.readouterr().err.splitlines() == [f"warning: {file}{line}" for line in UNKNOWN]


def test_strict_reading_rejects_unknown_fields(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(MISSPELT)
    with pytest.raises(InputErrors) as caught:
        read_cluster([str(file)], strict=True)
    assert [str(error) for error in caught.value.errors] == [f"{file}{line}" for line in UNKNOWN]
    file.write_text(MISSPELT.replace("lables", "labels").replace("comand", "command").replace("tolerr", "toler"))
    assert len(read_cluster([str(file)], strict=True).objects) == 2


def test_reported_unknown_fields_are_limited_to_ten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "---".join(f"\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, spce: 1}}\n" for i in range(50))
    )
    with logging_to_stderr():
        read_cluster([str(file)])
    lines = capsys.readouterr().err.splitlines()
    assert lines[9] == f'warning: {file}:20: Node n9: unknown field "spce"; did you mean "spec"?'
    assert lines[10:] == ["warning: and 40 more unknown fields"]


DEVICES = """\
apiVersion: kframework.dev/v1
kind: Devices
patterns:
- {driver: d, nodes: a, devices: [{name: g}]}
- {driver: d, nodes: b, devices: [{name: g}]}
"""


def test_nodes_get_the_devices_of_a_device_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, devices = tmp_path / "cluster.yaml", tmp_path / "devices.yaml"
    file.write_text("{apiVersion: v1, kind: Node, metadata: {name: a}}")
    devices.write_text(DEVICES)
    with logging_to_stderr():
        manifest = read_cluster([str(file)], devices=str(devices))
    assert [type(each) for each in manifest.objects] == [Node, ResourceSlice]
    doubt = f"warning: {devices}:5: patterns[1]: matches no node of the cluster files"
    assert capsys.readouterr().err.splitlines() == [doubt]


REJECTED = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: c, image: i}]
  runtimeClassName: nosuch
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      priorityClassName: nosuch
      containers: [{name: c, image: i}]
"""


def test_rejected_object_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    pod, deployment = REJECTED.split("---\n")
    file.write_text(pod)
    with pytest.raises(InputError) as caught:
        read_cluster([str(file)])
    assert str(caught.value) == (f'{file}:6: pods "web" is forbidden: pod rejected: RuntimeClass "nosuch" not found')
    file.write_text(deployment)
    with pytest.raises(InputError) as caught:
        read_cluster([str(file)])
    assert str(caught.value) == (
        f"{file}:9: Deployment default/web: spec.template.spec.priorityClassName: "
        'pods "web-" is forbidden: no PriorityClass with name nosuch was found'
    )


def test_objects_that_admission_rejects_are_apart_from_the_others(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"{REJECTED}---\n{{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}\n")
    manifest, rejected = read_admitted([str(file)])
    assert [each.metadata.name for each in manifest.objects] == ["n1"]
    assert [location.line() for location in manifest.locations] == [19]
    assert [each.to_error().line for each in rejected] == [6, 16]
    with pytest.raises(InputErrors) as caught:
        read_admitted([str(file)], strict=True)
    assert [error.line for error in caught.value.errors] == [6, 16]
