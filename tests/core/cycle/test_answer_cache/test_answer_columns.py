"""What is remembered is asked again where, and only where, something changed; and it never outlives its truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kframework import CycleState, NodeInfo, NodeTable, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.core.cycle.answer_cache import FEW
from kframework.core.cycle.plan import _PER_PLAN, Plan, PlanCache
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.results import FitError
from kframework.core.runtime.steps import as_column
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.taint_toleration import TaintToleration
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod
from kframework.values.scores import Rows, Scores
from tests.support.searches import SearchFixture, build_profile


class Owner(Plugin):
    """Rejects the nodes of others, and says whose they are; counts the questions."""

    name = "Owner"
    reads = "node"

    asked: list[str]

    def __init__(self, *arguments: object) -> None:
        self.asked = []

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return "any"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        owner = node.labels.get("owner")
        return unschedulable(f"owned by {owner}") if owner else None


class Crowded(Plugin):
    """Rejects nodes with two pods or more, and likes those with few."""

    name = "Crowded"
    reads = "pods"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable(f"{len(node.pods)} pods") if len(node.pods) > 1 else None

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 50 - len(node.pods)


class Columns(Plugin):
    """Answers in columns, as often as it is asked; `answer` makes the answer to a number of rows."""

    name = "Columns"
    reads = "pods"

    def __init__(self, answer: Callable[[int], object]) -> None:
        self.answer = answer
        self.asked: list[int] = []

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        assert isinstance(rows, np.ndarray)
        self.asked.append(len(rows))
        return self.answer(len(rows))  # type: ignore[return-value]  # some answer nonsense

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable(f"bits {bits}")


class BothForms(Columns):
    """Has a scalar form too."""

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("alone")


def nodes(number: int) -> list[str]:
    return [f"n{place}" for place in range(number)]


def caught_up(searching: SearchFixture, pod: PendingPod) -> Plan:
    plan = searching.plan(pod)
    assert plan.cache is not None
    plan.cache.catch_up(plan.profile, plan.state, pod)
    return plan


def words(searching: SearchFixture, pod: PendingPod) -> dict[str, str]:
    """Say what is remembered against each node."""
    search = searching.search(pod)
    top = caught_up(searching, pod).cache
    assert top is not None
    said = {node.name: top.rejections.cells[place] for place, node in enumerate(searching.nodes)}
    return {name: "" if rejection == PASS else search.status(rejection).message for name, rejection in said.items()}


def test_search_goes_along_what_is_remembered_without_a_copy() -> None:
    zones = [make_node(f"n{n}", labels={"topology.kubernetes.io/zone": zone}) for n, zone in enumerate("aabbab")]
    searching = SearchFixture(build_profile(Crowded), zones, [make_pod(f"p{n}", node_name="n2") for n in range(2)])
    search = searching.search(make_pod())
    search.run()
    assert [searching.nodes[row].name for row in search.filtered.node_order] == ["n0", "n2", "n1", "n3", "n4", "n5"]
    assert (search.filtered.rejections == PASS).tolist() == [True, False, True, True, True, True]
    assert search.plan.cache is not None
    assert np.shares_memory(search.filtered.rejections, search.plan.cache.rejections.values)


class Fussy(Plugin):
    """Rejects every node, and must be asked in every cycle."""

    name = "Fussy"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("no")


def test_uncached_answers_are_not_written_to_the_cache() -> None:
    searching = SearchFixture(build_profile(Crowded, Fussy), map(make_node, "ab"))
    search = searching.search(make_pod())
    assert isinstance(search.run(), FitError)
    assert search.plan.cache is not None
    assert search.plan.cache.rejections.values.tolist() == [PASS, PASS]


def test_only_the_rows_that_changed_are_asked_again() -> None:
    searching = SearchFixture(build_profile(Owner), map(make_node, "abc"))
    owner = searching.profile.plugins["Owner"]
    assert isinstance(owner, Owner)
    pod = searching.pending(make_pod())
    caught_up(searching, pod)
    assert owner.asked == ["a", "b", "c"]
    caught_up(searching, pod)
    searching.cluster.put_node(make_node("b", labels={"owner": "me"}))
    searching.cluster.put_node(make_node("b", labels={"owner": "you"}))
    searching.cluster.put_pod(make_pod("x", node_name="c"))
    assert words(searching, pod) == {"a": "", "b": "owned by you", "c": ""}
    assert owner.asked == ["a", "b", "c", "b"]


def test_touched_row_is_asked_again() -> None:
    searching = SearchFixture(build_profile(Owner), map(make_node, "ab"))
    pod = searching.pending(make_pod())
    caught_up(searching, pod)
    searching.nodes.mark_changed(1)
    caught_up(searching, pod)
    owner = searching.profile.plugins["Owner"]
    assert isinstance(owner, Owner)
    assert owner.asked == ["a", "b", "b"]


def test_columns_created_in_a_what_if_see_later_changes() -> None:
    searching = SearchFixture(build_profile(Crowded), map(make_node, "ab"))
    pod, cluster = searching.pending(make_pod()), searching.cluster
    cluster.put_pod(make_pod("y", node_name="b"))
    with cluster.statement() as statement:
        statement.add(PodInfo(make_pod("x"), cluster.interner), "a")
        caught_up(searching, pod)
    cluster.put_pod(make_pod("z", node_name="b"))
    assert words(searching, pod) == {"a": "", "b": "2 pods"}


def test_many_changes_between_two_looks_are_all_seen() -> None:
    searching = SearchFixture(build_profile(Owner, Crowded), map(make_node, nodes(30)))
    pod = searching.pending(make_pod())
    caught_up(searching, pod)
    for number in range(500):
        searching.cluster.put_node(make_node(f"n{number % 29}", labels={"owner": str(number)}))
    assert words(searching, pod) == {f"n{n}": f"owned by {n + 29 * ((499 - n) // 29)}" for n in range(29)} | {"n29": ""}


def test_upper_layer_follows_when_the_lower_one_numbers_its_words_anew() -> None:
    searching = SearchFixture(build_profile(Owner, Crowded), map(make_node, "ab"))
    pod = searching.pending(make_pod())
    searching.cluster.put_node(make_node("b", labels={"owner": "b"}))
    assert words(searching, pod) == {"a": "", "b": "owned by b"}
    for number in range(4 * FEW):
        searching.cluster.put_node(make_node("a", labels={"owner": str(number)}))
        assert words(searching, pod) == {"a": f"owned by {number}", "b": "owned by b"}


def test_words_that_nothing_refers_to_are_thrown_away() -> None:
    searching = SearchFixture(build_profile(Owner), map(make_node, "ab"))
    pod = searching.pending(make_pod())
    for number in range(8 * FEW):
        searching.cluster.put_node(make_node("a", labels={"owner": str(number)}))
        top = caught_up(searching, pod).cache
        assert top is not None and len(top.table) <= 2 * (2 + FEW) + 1


@pytest.mark.parametrize("order", [(Owner, Crowded), (Crowded, Owner)])
def test_first_rejection_in_order_is_kept_whichever_layer_it_is_in(order: tuple[type[Plugin], ...]) -> None:
    searching = SearchFixture(build_profile(*order), [make_node("a", labels={"owner": "me"})])
    for name in "xy":
        searching.cluster.put_pod(make_pod(name, node_name="a"))
    said = "owned by me" if order[0] is Owner else "2 pods"
    assert words(searching, searching.pending(make_pod())) == {"a": said}


@pytest.mark.parametrize(("number", "asked"), [(FEW, []), (FEW + 1, [FEW + 1])])
def test_columnar_form_is_asked_about_many_rows(number: int, asked: list[int]) -> None:
    plugin = BothForms(lambda rows: np.full(rows, 4))
    searching = SearchFixture(build_profile(plugin), map(make_node, nodes(number)))
    said = set(words(searching, searching.pending(make_pod())).values())
    assert plugin.asked == asked
    assert said == ({"bits 4"} if asked else {"alone"})


def test_columnar_form_that_is_the_only_one_is_asked_about_few_rows_too() -> None:
    plugin = Columns(lambda rows: np.arange(rows))
    searching = SearchFixture(build_profile(plugin), map(make_node, "ab"))
    assert words(searching, searching.pending(make_pod())) == {"a": "", "b": "bits 1"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda rows: np.ones(rows), id="floats"),
        pytest.param(lambda rows: np.ones(rows + 1, dtype=np.int64), id="too many"),
        pytest.param(lambda rows: np.ones((rows, 1), dtype=np.int64), id="a matrix"),
        pytest.param(lambda rows: None, id="nothing"),
        pytest.param(lambda rows: 1 // 0, id="raises"),
    ],
)
def test_column_that_is_none_is_asked_for_again_row_by_row(answer: Callable[[int], object]) -> None:
    searching = SearchFixture(build_profile(BothForms(answer)), map(make_node, nodes(FEW + 1)))
    assert set(words(searching, searching.pending(make_pod())).values()) == {"alone"}


@pytest.mark.parametrize(
    ("answer", "column"),
    [
        (np.array([True, False]), [1, 0]),
        (np.array([7, 8], dtype=np.int32), [7, 8]),
        (np.array([7, 2**32 - 1], dtype=np.uint32), [7, 2**32 - 1]),
        ([3, 4], [3, 4]),
        (5, [5, 5]),
    ],
)
def test_columns_of_other_integers_are_taken(answer: object, column: list[int]) -> None:
    taken = as_column(answer, 2)
    assert taken.dtype == np.int64
    assert taken.tolist() == column


def test_pods_that_differ_only_in_what_the_upper_layer_reads_share_the_lower_one() -> None:
    searching = SearchFixture(build_profile(TaintToleration, NodeResourcesFit), map(make_node, "ab"))
    first, second, third = (
        caught_up(searching, searching.pending(pod)).cache
        for pod in (make_pod(cpu="1"), make_pod(cpu="2"), make_pod(cpu="2", tolerations=["a:NoSchedule"]))
    )
    assert first is not None and second is not None and third is not None
    assert first is not second
    assert first.below is second.below is not None
    assert third.below is not second.below


def test_memory_is_counted_and_given_back() -> None:
    searching = SearchFixture(build_profile(TaintToleration, NodeResourcesFit), map(make_node, "ab"))
    pods = [searching.pending(make_pod(cpu=str(n + 1), tolerations=[str(n // 2)])) for n in range(6)]
    plans = [searching.plan(pod) for pod in pods]
    upper = sum(plan.cache.nbytes for plan in plans if plan.cache is not None)
    lower = {plan.cache.below for plan in plans if plan.cache is not None}
    assert len(lower) == 3
    columns = upper + sum(layer.nbytes for layer in lower if layer is not None)
    assert searching.layers.nbytes == columns + 6 * _PER_PLAN

    small = PlanCache(searching.profile, searching.nodes, 5 * _PER_PLAN + columns)
    for pod in pods:
        small.plan(searching.profile.sign(pod), pod)
    assert len(small) == 5  # the first, and it alone, had to go
    small.clear()
    assert (small.nbytes, len(small)) == (0, 0)


def columned(searching: SearchFixture, names: str) -> str:
    """Plan for pods of these names in turn; return which plans then have columns of their own."""
    pods = {name: searching.pending(make_pod(labels={"app": name})) for name in names}
    plans = {name: searching.plan(pods[name]) for name in names}
    return "".join(name for name, plan in plans.items() if plan.cache is not None)


def test_some_templates_keep_their_columns_when_the_cache_is_too_small() -> None:
    searching = SearchFixture(build_profile(Crowded), map(make_node, "ab"))
    columned(searching, "ab")
    searching.layers.budget = searching.layers.nbytes + _PER_PLAN + searching.pending(make_pod()).template.nbytes
    assert [columned(searching, "abc") for _ in range(3)] == ["ab"] * 3
    assert columned(searching, "c") == "c", "asked for twice since the oldest was"
    assert columned(searching, "ab") == "b"


@pytest.mark.parametrize(("between", "remembered"), [(49, True), (50, False)])
def test_columns_are_for_those_who_come_again_soon(between: int, remembered: bool) -> None:
    """Of 200 nodes 100 are looked at: columns pay where half as many rows have changed."""
    searching = SearchFixture(build_profile(Crowded), (make_node(f"n{n}") for n in range(200)))
    searching.layers = PlanCache(searching.profile, searching.nodes, 1 << 20, percentage=50)
    assert columned(searching, "a") == ""
    pods = [searching.pending(make_pod(labels={"app": f"other-{n}"})) for n in range(between)]
    for pod in pods:
        assert searching.plan(pod).cache is None
    assert columned(searching, "a") == "a" * remembered


def test_least_recently_used_plan_goes_first() -> None:
    searching = SearchFixture(build_profile(Crowded), map(make_node, "ab"))
    a, b, c = (searching.pending(make_pod(labels={"app": name})) for name in "abc")
    plan_a, plan_b = searching.plan(a), searching.plan(b)
    searching.layers.budget = searching.layers.nbytes
    assert searching.plan(a) is plan_a
    searching.plan(c)
    assert searching.plan(a) is plan_a
    assert searching.plan(b) is not plan_b


def test_one_plan_is_kept_however_small_the_budget() -> None:
    searching = SearchFixture(build_profile(Crowded), map(make_node, "ab"), budget=0)
    pod = searching.pending(make_pod())
    assert searching.plan(pod) is searching.plan(pod)


def test_all_is_forgotten_when_the_set_of_nodes_changes() -> None:
    searching = SearchFixture(build_profile(Owner), map(make_node, "ab"))
    pod = searching.pending(make_pod())
    before = searching.plan(pod)
    searching.cluster.put_node(make_node("a", labels={"owner": "me"}))
    assert searching.plan(pod) is before
    searching.cluster.put_node(make_node("c"))
    assert searching.plan(pod) is not before


class Thorough(Plugin):
    """Rejects every pod as a whole, and scores by what it would have stored otherwise."""

    name = "Thorough"
    reads = "node"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status:
        return unschedulable("not today")

    @hookimpl
    def pre_score(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> None:
        raise AssertionError("a pod that is rejected as a whole is never scored")


def test_pod_that_is_rejected_as_a_whole_is_not_prepared_for_scoring(caplog: pytest.LogCaptureFixture) -> None:
    searching = SearchFixture(build_profile(Thorough), [make_node("a")])
    outcome = searching.run(make_pod("x"))
    assert isinstance(outcome, FitError) and outcome.diagnosis.pre_filter_message == "not today"
    assert not caplog.records
