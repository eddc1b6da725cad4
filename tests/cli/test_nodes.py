"""`kframework nodes`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

CLUSTER = """
apiVersion: v1
kind: NodeList
items:
- {metadata: {name: a}, status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {metadata: {name: b}, status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
apiVersion: v1
kind: PodList
items:
- {metadata: {name: running}, spec: {nodeName: a, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}}
"""
PENDING = '- {metadata: {name: large}, spec: {containers: [{name: c, resources: {requests: {cpu: "8"}}}]}}\n'
SHAPES = """
apiVersion: v1
kind: Node
metadata: {name: big, annotations: {kframework.dev/price: "2.5"}}
status: {capacity: {cpu: "16", memory: 64Gi, pods: "110"}}
"""


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    file = tmp_path / "shapes.yaml"
    file.write_text(SHAPES)
    return file


def test_nodes_to_add(run: Command, cluster: Path, shapes: Path) -> None:
    cluster.write_text(CLUSTER + PENDING)
    result = run("nodes", "-f", cluster, "--shapes", shapes)
    assert (result.code, result.errors) == (0, [])
    assert result.out == (
        "1 pod without a node: 1 of them fit with 1 more node, at a price of 2.5.\n\n"
        "  COUNT  SHAPE  PRICE  PODS\n  1      big    2.5    1\n"
    )
    cluster.write_text(CLUSTER + PENDING.replace('"8"', '"64"'))
    left = run("nodes", "-f", cluster, "--shapes", shapes, "-o", "json")
    plan = json.loads(left.out)
    assert (left.code, plan["price"], plan["unplaced"][0]["pod"]) == (1, 0.0, "default/large")


def test_nodes_to_remove(run: Command, cluster: Path) -> None:
    result = run("nodes", "-f", cluster, "--remove")
    assert (result.code, result.errors) == (0, [])
    assert result.out == ("1 node can be emptied, in this order; the price of all is 1.\n\n  NODE\n  b\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "give either --shapes or --remove"),
        (["--remove", "--workload", "w"], "only with --shapes"),
        (["--remove", "--kubeconfig", "k"], "give either files or a kubeconfig"),
    ],
)
def test_wrong_usage_is_one_line(run: Command, cluster: Path, arguments: list[str], problem: str) -> None:
    result = run("nodes", "-f", cluster, *arguments)
    assert result.code == 2 and problem in result.errors[0]


def test_a_file_without_nodes_is_an_error(run: Command, cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n"
    )
    result = run("nodes", "-f", cluster, "--shapes", tmp_path / "pods.yaml")
    assert result.code == 1 and result.errors == [f"error: {tmp_path / 'pods.yaml'}: has no nodes to add"]
