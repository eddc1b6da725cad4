"""Our own tables: every column, what is assumed for an absent one, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kframework import InputError
from kframework.simulation.cluster_traces.cluster import TraceNode, TracePod
from kframework.simulation.cluster_traces.plain import read_plain

NODES = "name,cpu,memory\nn,4,16Gi\n"


def records(tmp_path: Path, nodes: str = NODES, pods: str = "name\n") -> list[TraceNode | TracePod]:
    files = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    for file, text in zip(files, (nodes, pods), strict=True):
        file.write_text(text)
    return [*read_plain(*map(str, files))]


def test_only_names_and_the_sizes_of_nodes_are_required(tmp_path: Path) -> None:
    assert records(tmp_path, NODES, "name\np\n") == [
        TraceNode("n", "4", "16Gi", gpus=0, gpu_model="", pods="110", labels={}, arrival=0, down=[]),
        TracePod("p", "", "", arrival=0, start=0, end=math.inf),
    ]


def test_all_columns_are_read(tmp_path: Path) -> None:
    nodes = "down,arrival,labels,pods,gpu_model,gpu,memory,cpu,name\n600-1200 9000-,30,zone=a; rack=,50,T4,2,1Ti,64,n\n"
    pods = (
        "name,cpu,memory,arrival,duration,gpu,gpu_model,priority,namespace,labels,node_selector\n"
        "p,500m,1Gi,10.5,60,0.25,T4|A100,-5,team,app=web,zone=a\n"
    )
    assert records(tmp_path, nodes, pods) == [
        TraceNode("n", "64", "1Ti", 2, "T4", "50", {"zone": "a", "rack": ""}, 30, [(600, 1200), (9000, math.inf)]),
        TracePod(
            *("p", "500m", "1Gi", 10.5, 10.5, 70.5, 250, ["T4", "A100"], -5, "team"),
            labels={"app": "web"},
            node_selector={"zone": "a"},
        ),
    ]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("name", "Web", "name is 'Web': a lowercase RFC 1123 subdomain must"),
        ("cpu", "4 cores", "cpu is '4 cores', not a quantity such as"),
        ("memory", "-1Gi", "memory is '-1Gi', not a quantity such as"),
        ("arrival", "soon", "arrival is 'soon', not a number from 0 on"),
        ("duration", "-1", "duration is '-1', not a number from 0 on"),
        ("gpu", "half", "gpu is 'half', not a number from 0 on"),
        ("priority", "high", "priority is 'high', not a whole number up to 1000000000"),
        ("priority", "2000000000", "priority is '2000000000', not a whole number"),
        ("labels", "web", "labels is 'web': write key=value;key=value"),
        ("node_selector", "=a", "node_selector is '=a': write key=value;key=value"),
    ],
)
def test_value_of_a_pod_that_cannot_be_read_is_named_with_its_line(
    tmp_path: Path, column: str, value: str, message: str
) -> None:
    pods = f"{column}\n{value}\n" if column == "name" else f"name,{column}\np,{value}\n"
    with pytest.raises(InputError, match=rf"pods\.csv:2: {message}"):
        records(tmp_path, NODES, pods)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("n,,16Gi,,", "cpu is '', not a quantity"),
        ("n,4,16Gi,0.5,", "gpu is '0.5', not a whole number"),
        ("n,4,16Gi,,soon", "down is 'soon', not a number from 0 on"),
    ],
)
def test_value_of_a_node_that_cannot_be_read_is_named_with_its_line(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"nodes\.csv:2: {message}"):
        records(tmp_path, f"name,cpu,memory,gpu,down\n{row}\n")


def test_unknown_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'pods\.csv:1: unknown column "durations"; did you mean "duration"\?'):
        records(tmp_path, NODES, "name,durations\n")
