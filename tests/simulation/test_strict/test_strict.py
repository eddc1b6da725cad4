"""With `--strict` files are refused for what a scheduler can do without."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.errors import InputErrors
from kframework.simulation.inputs import read_cluster
from tests.examples.clean_environment import ROOT

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: {containers}}}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {a: b}}\n"
ONE = "[{name: c, image: i}]"


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    read_cluster([str(file)])
    with pytest.raises(InputErrors) as caught:
        read_cluster([str(file)], strict=True)
    return [str(each).removeprefix(f"{file}:") for each in caught.value.errors]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (POD.format(name="p", containers="[]"), "4: Pod default/p: spec.containers: Required value"),
        (POD.format(name="p", containers="[{image: i}]"), "4: Pod default/p: spec.containers[0].name: Required value"),
        (
            POD.format(name="p", containers="[{name: c, image: i}, {name: c, image: i}]"),
            '4: Pod default/p: spec.containers[1].name: Duplicate value: "c"',
        ),
        (
            POD.format(name="p", containers="[{name: C, image: i}]"),
            '4: Pod default/p: spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label',
        ),
        (POD.format(name="P_1", containers=ONE), '3: Pod "P_1" is invalid: metadata.name: Invalid value: "P_1": a'),
        (POD.format(name="p", containers=ONE) + "kind: Pod\n", '5: duplicate key "kind"'),
        (
            POD.format(name="p", containers=ONE) + "status: {phase: Pending, phase: Pending}\n",
            '5: duplicate key "phase"',
        ),
        (
            "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: d}\n",
            "2: apps/v1 has no kind Deploymnt (did you mean 'Deployment'?)",
        ),
        (
            DEPLOYMENT + "  template: {metadata: {labels: {a: b}}, spec: {containers: []}}\n",
            "6: Deployment default/d: spec.template.spec.containers: Required value",
        ),
        (
            DEPLOYMENT + "  template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: i}]}}\n",
            '6: Deployment default/d: spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not',
        ),
        (
            POD.format(name="p", containers="[{name: c, image: i, workingDir: [i]}]"),
            "1: Pod default/p: json: cannot unmarshal array into Go struct field Container.spec.containers.workingDir",
        ),
        (
            POD.format(name="p", containers="[{name: c, image: i, resources: {requests: {a.b/c: 1}}}]"),
            "4: Pod default/p: spec.containers[0].resources.limits: Required value: Limit must be set for non",
        ),
    ],
)
def test_strict_refuses_what_is_wrong(tmp_path: Path, text: str, found: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(found)


def test_strict_accepts_kinds_of_others_and_kinds_that_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    others = "apiVersion: example.com/v1\nkind: Elsewhere\nmetadata: {name: g}\n---\n"
    ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n---\n"
    file.write_text(others + ingress + POD.format(name="p", containers=ONE))
    assert len(read_cluster([str(file)], strict=True).objects) == 1


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "clusters").glob("*.yaml")), ids=lambda path: path.name)
def test_example_clusters_are_accepted(file: Path) -> None:
    assert read_cluster([str(file)], strict=True).objects
