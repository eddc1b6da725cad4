"""Node arithmetic: what is free now and what will be, in columns as for one node, and nothing is left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.session_view import NodeIdle, task_resources
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_node, make_task

from kframework.objects import Pod
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, PodInfo


class Nodes:
    """Two nodes of 8 CPUs and three pods: `a` and `b` of 2 CPUs run on n1, `c` of 3 on n2."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        self.job = JobInfo("default", "job")
        for name in ("n1", "n2"):
            self.cluster.put_node(make_node(name, cpu=8, memory="8Gi", pods=4))
        for name, cpu, node in (("a", 2, "n1"), ("b", 2, "n1"), ("c", 3, "n2")):
            self.cluster.put_pod(make_task(name, "job", cpu=cpu, node=node))

    def pod(self, name: str) -> PodInfo:
        return next(pod for pod in self.cluster.pods.values() if pod.name == name)

    def task(self, pod: Pod) -> TaskInfo:
        return TaskInfo(self.job, PendingPod(pod, self.cluster.interner), pod, TaskStatus.PENDING)

    def row(self, node: str) -> int:
        row = self.cluster.nodes.row(node)
        assert row is not None
        return row


def cpu(idle: NodeIdle, row: int) -> tuple[int, int]:
    return idle.idle(row)["cpu"], idle.future(row)["cpu"]


def test_future_idle_includes_releasing_and_excludes_pipelined() -> None:
    nodes = Nodes()
    row = nodes.row("n1")
    idle = NodeIdle(nodes.cluster.nodes, [nodes.pod("a")])
    assert cpu(idle, row) == (4000, 6000)
    with nodes.cluster.statement() as statement:
        victim = nodes.pod("b")
        statement.evict(victim)
        idle.add_pod("evicted", statement, victim, row)
        assert cpu(idle, row) == (4000, 8000), "a victim holds its room until it is gone"
        small = nodes.task(make_task("s", "job"))
        assert (idle.fits_idle(small, row), idle.fits_future(small, row)) == (False, True), "and its ports"
        promised = nodes.task(make_task("p", "job", cpu=5))
        statement.add(promised.pod, "n1")
        idle.add_pod("pipelined", statement, promised.pod, promised.pod.row)
        assert cpu(idle, row) == (4000, 3000), "a promise takes nothing yet"
        assert (idle.idle(row)["pods"], idle.future(row)["pods"]) == (2, 3)
    assert cpu(idle, row) == (4000, 6000), "and all of it is undone"
    idle.close()
    assert cpu(NodeIdle(nodes.cluster.nodes), row) == (4000, 4000)


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        (make_task("p", "job", cpu=4), True),
        (make_task("p", "job", cpu="4001m"), False),
        (make_task("p", "job", cpu=1, requests={"example.com/gpu": 1}), False),
        (make_task("p", "job", cpu=None), True),
    ],
    ids=["all that is left", "a bit more", "what no node has", "nothing"],
)
def test_task_fits_where_all_requests_fit(pod: Pod, fits: bool) -> None:
    nodes = Nodes()
    idle, task, row = NodeIdle(nodes.cluster.nodes), nodes.task(pod), nodes.row("n1")
    assert idle.fits_idle(task, row) is idle.fits_future(task, row) is fits


def test_pod_capacity_of_a_node_is_respected() -> None:
    nodes = Nodes()
    for name in "xy":
        nodes.cluster.put_pod(make_task(name, "job", cpu=None, node="n1"))
    idle, row = NodeIdle(nodes.cluster.nodes), nodes.row("n1")
    task = nodes.task(make_task("p", "job", cpu=None))
    assert not idle.fits_idle(task, row)
    assert task_resources(task) == [("pods", 1)]
    assert NodeIdle(nodes.cluster.nodes, [nodes.pod("x")]).fits_future(task, row)


def test_close_clears_columns_and_marks_rows_changed() -> None:
    nodes = Nodes()
    idle = NodeIdle(nodes.cluster.nodes, [nodes.pod("a")])
    before = nodes.cluster.nodes.pod_log.end
    idle.close()
    changed = nodes.cluster.nodes.pod_log.since(before)
    assert changed is not None and set(changed) == {nodes.row("n1")}


@given(
    operations=st.lists(
        st.tuples(st.sampled_from(["evict", "promise"]), st.integers(0, 7), st.integers(0, 4)), max_size=10
    ),
    asked=st.integers(0, 9),
)
def test_columnar_and_scalar_answers_agree(operations: list[tuple[str, int, int]], asked: int) -> None:
    nodes = Nodes()
    table = nodes.cluster.nodes
    idle = NodeIdle(table, [nodes.pod("c")])
    with nodes.cluster.statement() as statement:
        for number, (how, size, at) in enumerate(operations):
            row = nodes.row(("n1", "n2")[at % 2])
            victims = sorted((pod for pod in table[row].pods if pod.name != "c"), key=lambda pod: pod.name)
            if how == "promise":
                pod = nodes.task(make_task(f"p{number}", "job", cpu=size)).pod
                statement.add(pod, table[row].name)
                idle.add_pod("pipelined", statement, pod, pod.row)
            elif victims and (victim := victims[size % len(victims)]).uid in nodes.cluster.pods:
                statement.evict(victim)
                idle.add_pod("evicted", statement, victim, row)
        task = nodes.task(make_task("asks", "job", cpu=asked))
        rows = table.order
        assert idle.fitting_idle(task, rows).tolist() == [idle.fits_idle(task, row) for row in rows.tolist()]
        assert idle.fitting_future(task, rows).tolist() == [idle.fits_future(task, row) for row in rows.tolist()]
        for row in rows.tolist():
            held = sum(pod.on_node[0][1] for pod in table[row].pods if pod.on_node)
            assert idle.future(row)["cpu"] == 8000 - held + (3000 if nodes.pod("c").row == row else 0)
