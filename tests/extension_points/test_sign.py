"""Sign: answers for equal signatures are asked once and remembered until what they depend on changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, unschedulable
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import ScenarioResult, create, patch
from tests.extension_points.scripted import held, plugin, run, scenario

NODES = ("a", "b", "c")
PODS = ("p1", "p2", "p3", "p4")


class Asked:
    """Counts the pods and nodes that a Filter plugin is asked about."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, str]] = []

    def __call__(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        self.questions.append((pod.name, node.name))


def scoring(**hooks: object) -> tuple[type[Plugin], ...]:
    """Score too, so that all nodes are looked at."""
    return plugin("P", score=1, **hooks), plugin("S", score=1, reads="node", sign="alike")  # type: ignore[arg-type]  # answers


@pytest.mark.parametrize(
    ("hooks", "questions"),
    [
        ({}, 12),  # neither signs nor declares: asked in every cycle
        ({"sign": None}, 12),
        ({"reads": "node"}, 6),  # cached from the second pod on
        ({"reads": "node", "sign": "all alike"}, 3),
        ({"reads": "node", "sign": lambda pod: pod.name}, 12),
        ({"reads": "node", "sign": lambda pod: None}, 12),
        ({"reads": "node", "sign": lambda pod: pod.name in ("p1", "p2")}, 6),
        ({"reads": "pods"}, 8),  # all rows twice, then the row of the pod before
        ({"sign": "all alike"}, 6),  # the row, pods included, unless told otherwise
    ],
)
def test_signing_plugins_are_called_only_for_changes(hooks: dict[str, object], questions: int) -> None:
    asked = Asked()
    result = run(*scoring(filter=asked, **hooks), nodes=NODES, pods=PODS)
    assert all(result.state_of(pod) == "bound" for pod in PODS)
    assert len(asked.questions) == questions


@pytest.mark.parametrize(
    ("third", "questions"),
    [
        (make_pod("p3"), []),
        (make_pod("p3", labels={"x": "y"}), [*NODES]),
        (make_pod("p3", annotations={"x": "y"}), [*NODES]),
        (make_pod("p3", cpu=1), [*NODES]),
        (make_pod("p3", namespace="team"), [*NODES]),
        (make_pod("p3", priority=7), [*NODES]),
    ],
)
def test_plugin_with_reads_and_without_sign_uses_the_pod_without_its_names(third: Pod, questions: list[str]) -> None:
    asked = Asked()
    run(*scoring(filter=asked, reads="node"), nodes=NODES, pods=[make_pod("p1"), make_pod("p2"), third])
    assert sorted(node for pod, node in asked.questions if pod == "p3") == questions


@pytest.mark.parametrize(
    ("happening", "again"),
    [
        (patch(make_node("b"), {"metadata": {"labels": {"x": "y"}}}), ["b"]),
        (patch(make_node("b"), {"metadata": {"managedFields": []}}), []),
        (create(make_pod("new", node_name="b")), []),
        (create(make_node("d")), ["a", "b", "c", "d"]),
    ],
)
@pytest.mark.parametrize("reads", ["node"])
def test_only_changed_nodes_are_filtered_again(happening: Callable[..., object], again: list[str], reads: str) -> None:
    asked = Asked()
    timeline = scenario(*scoring(filter=asked, reads=reads), nodes=NODES, pods=["p0", "p1"])
    timeline.at(5.0, happening).at(6.0, create(make_pod("p2")))
    timeline.run()
    assert sorted(node for pod, node in asked.questions if pod == "p2") == again


@pytest.mark.parametrize(
    ("touched", "again"), [(["b"], ["b"]), (["b", "c", "gone"], ["b", "c"]), ([], ["a", "b", "c"])]
)
def test_invalidated_nodes_are_filtered_again_after_the_cycle(touched: list[str], again: list[str]) -> None:
    asked = Asked()
    plugins = scoring(filter=asked, reads="node")

    def touch(cluster: MemoryCluster) -> None:
        held(plugins[0]).invalidate(*touched)

    timeline = scenario(*plugins, nodes=NODES, pods=["p0", "p1"]).at(5.0, touch).at(6.0, create(make_pod("p2")))
    timeline.run()
    assert sorted(node for pod, node in asked.questions if pod == "p2") == again


def failing(pod: PendingPod) -> str:
    if pod.name == "p1":
        raise ValueError("unsigned")
    return "x"


@pytest.mark.parametrize(
    ("sign", "message"),
    [
        (failing, "plugin 'P', hook sign: ValueError: unsigned"),
        (lambda pod: [] if pod.name == "p1" else "x", "plugin 'P', hook sign: TypeError: unhashable type: 'list'"),
    ],
)
def test_failing_sign_is_a_plugin_fault(sign: object, message: str) -> None:
    result: ScenarioResult = run(*scoring(filter=None, reads="node", sign=sign), nodes=NODES, pods=("p1", "p2"))
    condition = result.condition_of("p1")
    assert condition is not None
    assert (condition.reason, condition.message) == ("SchedulerError", message)
    assert result.state_of("p1") == "backoff"
    assert result.state_of("p2") == "bound"


def test_pre_filter_of_a_signing_plugin_runs_once_per_signature() -> None:
    journal: list[str] = []
    signing = plugin("P", sign="x", pre_filter=None, filter=None, reads="node", journal=journal)
    run(signing, plugin("S", score=1), nodes=NODES, pods=PODS)
    assert journal.count("P.pre_filter") == 1


def test_cached_rejection_names_its_plugin_for_every_pod() -> None:
    result = run(plugin("P", filter=unschedulable("no"), reads="node"), nodes=NODES, pods=PODS)
    assert {result.message_of(pod) for pod in PODS} == {"0/3 nodes are available: 3 no."}
    assert {result.queued(pod).rejectors for pod in PODS} == {frozenset({"P"})}
