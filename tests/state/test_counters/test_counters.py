"""Counts of pods that stay current."""

from __future__ import annotations

import pytest

from kframework.objects.label_selectors import EVERYTHING, exact_selector, parse_label_selector
from kframework.state import counters as counters_module
from kframework.state.cluster import ClusterState
from kframework.state.pod_counts import AllOf, LabelClass, Selection, WeightedSelections
from tests.support.objects import node, pod, selection

WEB = selection("default", app="web")


def cluster(*nodes: str) -> ClusterState:
    """Make a cluster of these nodes."""
    state = ClusterState()
    for name in nodes:
        state.put_node(node(name))
    return state


def put(state: ClusterState, uid: str, node_name: str, namespace: str = "default", **labels: str) -> None:
    """Put an assigned pod into the cluster."""
    state.put_pod(pod(uid, namespace=namespace, labels=labels, node_name=node_name))


def per_row(state: ClusterState, *selections: Selection) -> list[int]:
    """Count on the first two rows."""
    return state.nodes.counters.count(*selections).column.cells[:2].tolist()


def test_count_is_of_the_pods_there_are() -> None:
    state = cluster("a", "b")
    put(state, "p", "a", app="web")
    put(state, "q", "a", app="web", tier="x")
    put(state, "r", "b", app="db")
    put(state, "s", "b", namespace="other", app="web")
    assert per_row(state, WEB) == [2, 0]
    assert per_row(state, selection("default")) == [2, 1]
    assert per_row(state, Selection(None, exact_selector({"app": "web"}))) == [2, 1]
    assert per_row(state, WEB, Selection(None, exact_selector({"tier": "x"}))) == [1, 0]


def test_count_stays_current() -> None:
    state = cluster("a", "b")
    column = state.nodes.counters.count(WEB).column
    put(state, "p", "a", app="web")
    put(state, "q", "b", app="web", tier="new class")
    assert column.cells[:2].tolist() == [1, 1]
    put(state, "p", "b", app="web")
    assert column.cells[:2].tolist() == [0, 2]
    put(state, "p", "b", app="db")
    state.remove_pod("q")
    assert column.cells[:2].tolist() == [0, 0]


def test_count_loses_the_pods_of_a_node_and_gets_them_back() -> None:
    state = cluster("a")
    put(state, "p", "a", app="web")
    column = state.nodes.counters.count(WEB).column
    state.remove_node("a")
    assert not column.values.any()
    state.put_node(node("b"))
    state.put_node(node("a"))
    assert column.cells[:2].tolist() == [0, 1]


def test_count_grows_with_the_table() -> None:
    state = cluster("a")
    count = state.nodes.counters.count(WEB)
    for n in range(100):
        state.put_node(node(f"n{n}"))
        put(state, f"p{n}", f"n{n}", app="web")
    assert count.column.values.sum() == 100
    assert len(count.column.values) == state.nodes.capacity


def test_equal_selections_share_a_count() -> None:
    counters = cluster("a").nodes.counters
    assert counters.count(WEB) is counters.count(selection("default", app="web"))


def test_unused_counts_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters_module, "_BUDGET", 0)
    state = cluster("a")
    put(state, "p", "a", app="web")
    counters = state.nodes.counters
    first, dropped = counters.count(WEB), counters.dropped
    for n in range(126):
        counters.count(selection("default", app=str(n)))
    assert counters.count(WEB) is first
    counters.count(Selection(None, EVERYTHING))
    counters.count(selection("default", app="126"))
    assert counters.count(WEB) is first and counters.dropped == dropped + 1
    for n in range(200, 330):
        counters.count(selection("default", app=str(n)))
    put(state, "q", "a", app="web")
    assert first.column.cells[0] == 1
    assert len(counters._counts_by_label) == len(counters._counts) == 128
    assert counters.count(WEB).column.cells[0] == 2
    put(state, "r", "a", app="web")
    assert len(counters._counts) == 64  # no cycle is under way
    assert counters.count(WEB).column.cells[0] == 3


def test_count_is_made_and_dropped_without_a_look_at_the_pods_of_other_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counters_module, "_BUDGET", 0)
    state = cluster("a")
    for n in range(300):
        put(state, f"p{n}", "a", app="shared", workload=f"w{n}")
    looks: list[LabelClass] = []
    weight = AllOf.weight

    def seen_weighing(chosen: AllOf, pods: LabelClass) -> int:
        looks.append(pods)
        return weight(chosen, pods)

    monkeypatch.setattr(AllOf, "weight", seen_weighing)
    for _ in range(2):
        for n in range(300):
            assert per_row(state, selection("default", app="shared", workload=f"w{n}")) == [1, 0]
    assert len(looks) == 600


def test_classes_are_found_by_label_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters_module, "_MIN_COUNTS", 0)
    monkeypatch.setattr(counters_module, "_BUDGET", 0)  # so that every count is built again
    state = cluster("a")
    anywhere = Selection(None, exact_selector({"app": "web"}))
    for n in range(3):
        put(state, f"p{n}", "a", app="web", index=str(n))
        put(state, f"q{n}", "a", namespace="other", app="web", index=str(n))
        assert [per_row(state, WEB)[0], per_row(state, anywhere)[0]] == [n + 1, 2 * n + 2]
    for n in range(3000):
        put(state, "p0", "a", app="web", index=str(n))
    assert [per_row(state, WEB)[0], per_row(state, anywhere)[0]] == [3, 6]


def test_classes_without_pods_are_dropped() -> None:
    state = cluster("a")
    counters = state.nodes.counters
    count = counters.count(WEB)
    for n in range(3000):
        put(state, "p", "a", app="web", index=str(n))
        assert counters.count(WEB) is count
    assert sum(map(len, counters._classes.values())) < 2100
    assert count.column.cells[0] == 1
    state.remove_pod("p")
    put(state, "p", "a", app="web", index="0")
    assert count.column.cells[0] == 1


def test_empty_counts_are_dropped_unless_in_use() -> None:
    """Every fifth pod has a label of its own, as a Job gives it, and wants to be apart from its like."""
    state = cluster("a")
    counters = state.nodes.counters
    put(state, "other", "a", app="other")
    sums = WeightedSelections(
        ((1, Selection(None, parse_label_selector("app"))), (-1, Selection(None, exact_selector({"app": "other"}))))
    )
    kept, asked, nothing = (
        counters.count(selection("default", app="other")),
        counters.count(WEB),
        counters.count_for(sums),
    )
    most = 0
    for n in range(5000):
        put(state, "p", "a", job=str(n))
        if n % 5 == 0:
            assert per_row(state, selection("default", job=str(n))) == [1, 0]
        assert counters.count(WEB) is asked
        state.remove_pod("p")
        most = max(most, len(counters._counts))
    assert most < 500  # those of one sweep and the next
    assert kept.column.cells[0] == 1 and kept in counters._counts.values()
    assert nothing not in counters._counts.values()
    for pods in counters._classes["default"]:
        assert set(pods.counts or ()) <= set(counters._counts.values())
    put(state, "p", "a", app="web")
    assert [per_row(state, WEB)[0], counters.count_for(sums).column.cells[0]] == [1, 1]


def test_sum_of_selections_is_one_count() -> None:
    state = cluster("a", "b")
    put(state, "p", "a", app="web")
    count = state.nodes.counters.count_for(WeightedSelections(((2, WEB), (3, Selection(None, EVERYTHING)))))
    put(state, "q", "b", app="db")
    put(state, "r", "a", app="web", tier="new class")
    assert count.column.cells[:2].tolist() == [10, 3]
    state.remove_pod("p")
    assert count.column.cells[:2].tolist() == [5, 3]


def test_unused_counts_soon_cost_pod_changes_nothing() -> None:
    state = cluster("a")
    put(state, "p", "a", app="web")
    counters = state.nodes.counters
    wanted = counters.count(WEB)
    for n in range(100):
        counters.count(WEB, Selection(None, parse_label_selector(f"app!=none-{n}")))
    for _ in range(2 * counters_module._STALE_AFTER):
        put(state, "q", "a", app="web")
        state.remove_pod("q")
        assert counters.count(WEB) is wanted
    web = state.interner.label_class("default", {"app": "web"}, False)
    assert web.counts is not None and wanted in web.counts
    assert len(web.counts) <= counters_module._MAX_PER_CLASS + 1


def test_no_count_is_dropped_in_the_middle_of_a_what_if() -> None:
    state = cluster("a")
    put(state, "p", "a", app="web")
    counters = state.nodes.counters
    counts = [counters.count(WEB, Selection(None, parse_label_selector(f"app!=none-{n}"))) for n in range(100)]
    with state.statement() as statement:
        for _ in range(2 * counters_module._STALE_AFTER):
            statement.remove(state.pods["p"])
            statement.add(state.pods["p"], "a")
    assert len(counters._counts) == len(counts)
