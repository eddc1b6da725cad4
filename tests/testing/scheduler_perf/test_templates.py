"""Templates: the actions of Go's text/template that are read, and the objects that come of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import InputError
from kframework.objects import DeviceClass, Node, Pod
from kframework.testing.scheduler_perf.templates import Template
from tests.testing.scheduler_perf.written import NODE


def created(tmp_path: Path, text: str, index: int = 0, count: int = 1) -> object:
    """Make an object of a template."""
    file = tmp_path / "template.yaml"
    file.write_text(text)
    return Template(file).make(index, count)


@pytest.mark.parametrize(
    ("action", "index", "said"),
    [
        ("{{.Index}}", 7, "7"),
        ("{{ .Count }}", 7, "100"),
        ("{{- .Index -}}", 7, "7"),
        ("{{Mod .Index 5}}", 7, "2"),
        ("{{ DivideInt 30000 .Count }}", 7, "300"),
        ("{{ DivideInt .Index 2 }}", 7, "3"),
        ("{{ DivideInt -7 2 }}", 0, "-3"),
        ("{{ Mod -7 2 }}", 0, "-1"),
        ("{{ AddInt 1 2 .Index }}", 7, "10"),
        ("{{ SubtractInt 1 .Index }}", 7, "-6"),
        ("{{ MultiplyInt 2 3 .Index }}", 7, "42"),
        ("{{ DivideFloat .Index 2 }}", 7, "3.5"),
        ("{{ AddInt (Mod .Index 5) 1 }}", 7, "3"),
        ("{{ 8 }}", 0, "8"),
    ],
)
def test_template_actions_are_evaluated(tmp_path: Path, action: str, index: int, said: str) -> None:
    text = NODE.replace("generateName: node-", f'name: node-{{{{.Index}}}}\n  annotations: {{said: "{action}"}}')
    node = created(tmp_path, text, index, 100)
    assert isinstance(node, Node)
    assert node.metadata.annotations == {"said": said}
    assert node.metadata.name == f"node-{index}"


@pytest.mark.parametrize(
    ("action", "culprit"),
    [
        ("{{ .Name }}", ".Name"),
        ("{{ range .Items }}", "range"),
        ("{{ if .Index }}", "if"),
        ("{{ .Index | quote }}", "{{ .Index | quote }}"),
        ("{{ (AddInt 1 2 }}", "("),
        ("{{ }}", "{{ }}"),
    ],
)
def test_other_actions_are_rejected(tmp_path: Path, action: str, culprit: str) -> None:
    with pytest.raises(InputError) as refused:
        created(tmp_path, NODE.replace("node-", f"node-{action}"))
    message = "of a template's actions only .Index, .Count, numbers and functions of them are read"
    assert str(refused.value) == f"{tmp_path}/template.yaml: {culprit}: {message}"


def test_actions_read_parameters_of_the_template(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(
        NODE.replace("generateName: node-", "name: n-{{DivideInt .Index .perRack}}")
    )
    node = Template(tmp_path / "template.yaml").make(7, 10, {"perRack": 3})
    assert node.metadata.name == "n-2"


def test_template_without_actions_makes_one_object(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text(NODE)
    template = Template(file)
    assert template.make(0, 2) is template.make(1, 2)


def test_field_names_are_case_insensitive(tmp_path: Path) -> None:
    text = """\
    apiVersion: v1
    kind: Pod
    metadata: {name: a}
    spec:
      containers: [{name: a}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, NodeTaintsPolicy: Honor}
    """
    pod = created(tmp_path, text)
    assert isinstance(pod, Pod)
    (constraint,) = pod.spec.topology_spread_constraints
    assert constraint.node_taints_policy == "Honor"


def test_beta_devices_are_converted_to_v1(tmp_path: Path) -> None:
    text = "kind: DeviceClass\nmetadata: {name: a}\nspec: {extendedResourceName: example.com/gpu}\n"
    made_of_beta = created(tmp_path, f"apiVersion: resource.k8s.io/v1beta2\n{text}")
    assert isinstance(made_of_beta, DeviceClass)
    assert made_of_beta.spec.extended_resource_name == "example.com/gpu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}",
            "kind Widget of example.com/v1 is none that a scheduler here reads",
        ),
        (NODE + "spac: {}\n", 'unknown field "spac"'),
        (NODE.replace('"10"', "[]"), "Node: status.capacity.pods: expected a quantity, got a list"),
    ],
    ids=["kind", "field", "type"],
)
def test_invalid_templates_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        created(tmp_path, text)
    assert str(refused.value) == f"{tmp_path}/template.yaml: {message}"


def test_top_level_fields_are_detected(tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(NODE)
    template = Template(tmp_path / "template.yaml")
    assert template.has_field("status")
    assert not template.has_field("spec")
