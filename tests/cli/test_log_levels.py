"""The log at each verbosity, as the user of the command reads it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.conftest import Command, Run
from tests.cli.processes import exported, started, until_bound

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: node-b}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, annotations: {kframework.dev/run-seconds: "60"}}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: "8"}}}]}
"""
FROM_2 = ["Successfully bound pod to node", "Unable to schedule pod; no fit; waiting"]
FROM_3 = [
    "Add event for node",
    "Add event for scheduled pod",
    "Add event for unscheduled pod",
    "Attempting to schedule pod",
    "Delete event for scheduled pod",
    "Updating pod condition and nominated node name",
]
FROM_4 = ["Plugin answers"]
FROM_5 = ["Called the queueing hint of a plugin that rejected the pod", "Pod moved to an internal scheduling queue"]
FROM_10 = ["Calculated node's final score for pod", "Plugin scored node for pod"]
#: Whether an attempt is slow depends on the machine.
SLOW = "Slow scheduling attempt"


def log(result: Run) -> list[dict[str, object]]:
    """Return the lines of a log in JSON, without the last line on stderr, which is the command's."""
    assert result.code == 0
    lines = [json.loads(line) for line in result.err.splitlines()[:-1]]
    return [line for line in lines if line["msg"] != SLOW and line["logger"].startswith("kframework.")]


def logged(run: Command, cluster: Path, verbosity: int) -> list[dict[str, object]]:
    lines = log(run("simulate", "-f", cluster, "--logging-format", "json", "-v", verbosity))
    return [line for line in lines if line["logger"] != "kframework.say"]


@pytest.mark.parametrize(
    ("verbosity", "messages"),
    [
        (0, []),
        (1, []),
        (2, FROM_2),
        (3, FROM_2 + FROM_3),
        (4, FROM_2 + FROM_3 + FROM_4),
        (5, FROM_2 + FROM_3 + FROM_4 + FROM_5),
        (9, FROM_2 + FROM_3 + FROM_4 + FROM_5),
        (10, FROM_2 + FROM_3 + FROM_4 + FROM_5 + FROM_10),
    ],
)
def test_each_verbosity_logs_more(run: Command, cluster: Path, verbosity: int, messages: list[str]) -> None:
    assert {line["msg"] for line in logged(run, cluster, verbosity)} == set(messages)


def test_attempt_reads_from_its_beginning_to_its_end(run: Command, cluster: Path) -> None:
    lines = [line for line in logged(run, cluster, 5) if line.get("pod") == {"name": "web", "namespace": "shop"}]
    assert [(line["msg"], line["v"]) for line in lines] == [
        ("Add event for unscheduled pod", 3),
        ("Pod moved to an internal scheduling queue", 5),
        ("Attempting to schedule pod", 3),
        ("Plugin answers", 4),
        ("Successfully bound pod to node", 2),
        ("Add event for scheduled pod", 3),
        ("Delete event for scheduled pod", 3),
    ]
    assert {line["attempt"] for line in lines if "attempt" in line} == {1}


def test_scores_of_the_plugins_add_up(run: Command, cluster: Path) -> None:
    sums, finals = Counter[object](), {}
    for line in logged(run, cluster, 10):
        if line["msg"] == "Plugin scored node for pod":
            assert isinstance(line["score"], int)
            sums[line["node"]] += line["score"]
        elif line["msg"] == "Calculated node's final score for pod":
            finals[line["node"]] = line["score"]
    assert finals.keys() == {"node-a", "node-b"}
    assert sums == finals


def test_log_changes_nothing(run: Command, cluster: Path) -> None:
    silent = run("simulate", "-f", cluster, "-o", "json", "--seed", 7)
    assert run("simulate", "-f", cluster, "-o", "json", "--seed", 7, "-v", 10).out == silent.out


def test_text_is_what_v_alone_brings(run: Command, cluster: Path) -> None:
    *lines, summary = run("simulate", "-f", cluster, "-v", 2).errors
    moments = [line.split()[:2] for line in lines if SLOW not in line]
    assert moments == [["I0101", f"00:0{minute}:00.000000"] for minute in (0, 0, 1)]
    assert summary.startswith("1 of 2 pods bound")


PREEMPTION = """
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {allocatable: {cpu: "1", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: shop}
spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: shop}
spec: {priority: 9, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


def test_preemption_is_logged_from_its_choice_to_its_victims(run: Command, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(PREEMPTION)
    messages = [line["msg"] for line in logged(run, cluster, 2)]
    assert messages == [
        "Unable to schedule pod; no fit; waiting",
        "The target node for the preemption is determined",
        "Preemptor Pod preempted victim Pod",
        "Successfully bound pod to node",
    ]
    (told,) = [line for line in logged(run, cluster, 2) if line["msg"] == messages[2]]
    new, old = ({"name": name, "namespace": "shop"} for name in ("new", "old"))
    assert (told["preemptor"], told["victim"], told["node"]) == (new, old, "node-a")
    (updated,) = [line for line in logged(run, cluster, 3) if line.get("nominatedNodeName")]
    assert (updated["pod"], updated["conditionReason"], updated["nominatedNodeName"]) == (
        new,
        "Unschedulable",
        "node-a",
    )


@pytest.mark.slow
def test_running_scheduler_writes_nothing_but_json(cluster: Path) -> None:
    flags = ["--embedded", "-f", cluster, "--secure-port=0", "-v=2", "--logging-format=json", "--profiling"]
    with started("run", *flags) as scheduler:
        assert until_bound(exported(scheduler), "web", "shop") in ("node-a", "node-b")
        code, _, lines = scheduler.end()
    entries = [json.loads(line) for line in lines]
    assert code == 0
    assert {entry["msg"] for entry in entries if entry["logger"] == "kframework.observe.journal"} == set(FROM_2)
    passed_over, *_, last = (entry["msg"] for entry in entries)
    assert passed_over == "flags of kube-scheduler ignored here: --profiling"
    assert last == "Requested to terminate, exiting"


def test_traced_attempt_names_its_trace(run: Command, cluster: Path, tmp_path: Path) -> None:
    flags = ["-v", 2, "--logging-format", "json", "--trace", tmp_path / "spans"]
    told = {line["attempt"]: line["trace_id"] for line in log(run("simulate", "-f", cluster, *flags))}
    spans = [json.loads(line)["resourceSpans"][0] for line in (tmp_path / "spans").read_text().splitlines()]
    traces = {span["traceId"] for each in spans for scope in each["scopeSpans"] for span in scope["spans"]}
    assert len(told) > 1 and set(told.values()) == traces
