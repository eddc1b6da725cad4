"""The search for a node, case by case; `tests/properties/test_cycle.py` compares it with the slow one at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kframework import (
    CycleState,
    NodeInfo,
    NodeTable,
    PendingPod,
    Plugin,
    PodInfo,
    Skip,
    Status,
    hookimpl,
    unresolvable,
    unschedulable,
)
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.objects import Node
from kframework.testing import make_node, make_pod
from kframework.values.scores import Rows, Scores
from kframework.values.status import Code
from tests.support.searches import SearchFixture, build_profile

Answer = Callable[[PendingPod, NodeInfo], Status | None]


class Says(Plugin):
    """A Filter plugin that is asked in every cycle; notes the nodes it was asked about."""

    def __init__(self, name: str, answer: Answer) -> None:
        self.name = name  # type: ignore[misc]  # several in one profile
        self.answer = answer
        self.asked: list[str] = []

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return self.answer(pod, node)


class Remembers(Says):
    """The same, signed."""

    reads = "pods"


class Narrows(Plugin):
    """Names the only nodes worth looking at."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    name = "Narrows"
    reads = "node"

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> set[str]:
        return self.names


class Likes(Plugin):
    """Scores nodes by their label `score`; raises where it is no number."""

    name = "Likes"
    reads = "node"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return int(node.labels.get("score", "0"))


class Stretches(Likes):
    """Stretches the scores of the feasible nodes to 0..100."""

    name = "Stretches"

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
        stretched: Scores = (scores - scores.min()) * 100 // max(1, int(scores.max() - scores.min()))
        return stretched


def on(names: str, status: Status) -> Answer:
    """Object to these nodes."""
    return lambda pod, node: status if node.name in names else None


def broken(names: str) -> Answer:
    """Fail on these nodes."""

    def answer(pod: PendingPod, node: NodeInfo) -> Status | None:
        if node.name in names:
            raise ValueError(f"cannot read {node.name}")
        return None

    return answer


def scored(**scores: object) -> list[Node]:
    return [make_node(name, labels={"score": str(score)}) for name, score in scores.items()]


no, never = unschedulable("no"), unresolvable("never")


def test_without_score_plugins_the_first_feasible_node_is_enough() -> None:
    searching = SearchFixture(build_profile(Remembers("A", on("abde", no))), map(make_node, "abcdefgh"))
    assert searching.run(make_pod()) == ScheduleResult("c", 0, 1, 5, 1)
    assert searching.rotation.next_start_index == 5
    assert searching.run(make_pod()) == ScheduleResult("f", 0, 1, 1, 1)
    assert searching.rotation.next_start_index == 6


def test_sample_of_the_nodes_is_scored_and_the_next_search_goes_on_behind_it() -> None:
    nodes = [make_node(f"n{n}", labels={"score": str(n % 100)}) for n in range(300)]
    searching = SearchFixture(build_profile(Likes, percentage=40), nodes)
    first, second, third = (searching.run(make_pod()) for _ in range(3))
    assert (
        isinstance(first, ScheduleResult) and isinstance(second, ScheduleResult) and isinstance(third, ScheduleResult)
    )
    assert (first.evaluated, first.feasible, first.node) == (120, 120, "n99")
    assert second.node == "n199"
    assert third.node == "n299"  # the round goes on at the first node again
    assert searching.rotation.next_start_index == 60


class EveryThird(Plugin):
    """Lets every third node in, or none, in columns; notes about how many rows it is asked."""

    name = "EveryThird"

    def __init__(self, passing: bool) -> None:
        self.passing = passing
        self.asked: list[int] = []

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        assert isinstance(rows, np.ndarray)
        self.asked.append(len(rows))
        return (rows % 3 > 0).astype(np.int64) if self.passing else np.ones(len(rows), dtype=np.int64)

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return unschedulable("not this one")


@pytest.mark.parametrize(("passing", "asked"), [(True, [202, 372]), (False, [202, 1000])])
def test_search_that_finds_too_few_looks_as_far_as_is_likely_to_do(passing: bool, asked: list[int]) -> None:
    plugin = EveryThird(passing)
    searching = SearchFixture(
        build_profile(plugin, Likes, percentage=10), (make_node(f"n{n}", labels={"score": "1"}) for n in range(1000))
    )
    outcome = searching.run(make_pod())
    assert plugin.asked == asked
    assert isinstance(outcome, ScheduleResult) is passing


@pytest.mark.parametrize("plugin", [Says, Remembers])
def test_search_that_meets_a_fault_ends_there(plugin: type[Says]) -> None:
    searching = SearchFixture(build_profile(Likes, plugin("A", broken("c"))), map(make_node, "abcde"))
    outcome = searching.run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert outcome.status.plugin == "A"
    assert outcome.status.message == "plugin 'A', hook filter: ValueError: cannot read c"
    assert searching.rotation.next_start_index == 2


@pytest.mark.parametrize("plugin", [Says, Remembers])
def test_fault_that_the_search_does_not_reach_is_none(plugin: type[Says]) -> None:
    searching = SearchFixture(build_profile(plugin("A", broken("d"))), map(make_node, "abcd"))
    assert [searching.run(make_pod()) for _ in range(2)] == [
        ScheduleResult("a", 0, 1, 1, 1),
        ScheduleResult("b", 0, 1, 1, 1),
    ]
    # It ends at one feasible node more than is enough, and looks for it behind `c`.
    assert isinstance(searching.run(make_pod()), ScheduleError)
    assert searching.rotation.next_start_index == 3


def test_fault_behind_an_earlier_rejection_is_none() -> None:
    searching = SearchFixture(build_profile(Says("A", on("a", no)), Remembers("B", broken("a"))), map(make_node, "abc"))
    assert searching.run(make_pod()) == ScheduleResult("b", 0, 1, 2, 1)


def test_next_search_starts_behind_the_nominated_node_too() -> None:
    searching = SearchFixture(build_profile(Remembers("A", on("d", no))), map(make_node, "abcd"))
    searching.run(make_pod(nominated_node_name="d"))
    assert searching.rotation.next_start_index == 2  # `a`, and `d` which was tried first


def test_nominated_node_is_taken_without_a_look_at_the_others() -> None:
    searching = SearchFixture(build_profile(Remembers("A", lambda pod, node: None), Likes), scored(a=9, b=1))
    assert searching.run(make_pod(nominated_node_name="b")) == ScheduleResult("b", 0, 1, 1, 1)
    assert searching.rotation.next_start_index == 0


def test_room_is_kept_for_a_nominated_pod_unless_it_is_less_important() -> None:
    few = Remembers("A", lambda pod, node: no if len(node.pods) > 1 else None)
    searching = SearchFixture(build_profile(few), [make_node("a")], [make_pod("x", node_name="a")])
    rival = searching.pending(make_pod("rival", priority=5))
    searching.cluster.nominator.nominate(rival, "a")
    assert isinstance(searching.run(make_pod(priority=5)), FitError)
    assert isinstance(searching.run(make_pod(priority=6)), ScheduleResult)
    assert rival.row == -1


@pytest.mark.parametrize("plugin", [Says, Remembers])
def test_rejection_with_nominated_pods_holds_whatever_the_answer_without_them(plugin: type[Says]) -> None:
    lonely = plugin("A", lambda pod, node: never if not node.pods else None)
    full = Remembers("B", lambda pod, node: no if node.pods else None)
    searching = SearchFixture(build_profile(lonely, full), [make_node("a")])
    searching.cluster.nominator.nominate(searching.pending(make_pod("rival")), "a")
    outcome = searching.run(make_pod())
    assert isinstance(outcome, FitError)
    assert (outcome.reasons, outcome.rejectors) == ({"no": 1}, frozenset("B"))


@pytest.mark.parametrize("kinds", [(a, b) for a in (Says, Remembers) for b in (Says, Remembers)])
def test_first_rejection_in_order_is_the_reason(kinds: tuple[type[Says], type[Says]]) -> None:
    profile = build_profile(kinds[0]("A", on("ab", no)), kinds[1]("B", on("bcd", never)))
    outcome = SearchFixture(profile, map(make_node, "abcd")).run(make_pod())
    assert isinstance(outcome, FitError)
    assert outcome.reasons == {"no": 2, "never": 2}
    assert outcome.rejectors == {"A", "B"}
    assert [outcome.diagnosis[row].plugin for row in range(4)] == ["A", "A", "B", "B"]


def test_plugin_asked_along_the_way_is_asked_once_about_a_node() -> None:
    first, second = Says("A", on("ab", no)), Says("C", on("bcd", never))
    searching = SearchFixture(build_profile(first, Remembers("B", on("c", no)), second), map(make_node, "abcd"))
    assert isinstance(searching.run(make_pod()), FitError)
    assert (sorted(first.asked), sorted(second.asked)) == (["a", "b", "c", "d"], ["d"])


def test_nodes_that_plugins_leave_out_have_a_reason_of_their_own() -> None:
    profile = build_profile(Narrows("a", "b", "unheard of"), Remembers("A", on("a b", no)))
    outcome = SearchFixture(profile, map(make_node, "abcd")).run(make_pod())
    assert isinstance(outcome, FitError)
    assert outcome.reasons == {"no": 2, "node(s) didn't satisfy plugin(s) [Narrows]": 2}
    assert (outcome.rejectors, outcome.evaluated) == (frozenset({"A", "Narrows"}), 2)


def test_nominated_node_that_plugins_leave_out_keeps_its_reason() -> None:
    profile = build_profile(Narrows("a"), Remembers("A", on("ad", no)))
    searching = SearchFixture(profile, map(make_node, "abcd"))
    outcome = searching.run(make_pod(nominated_node_name="d"))
    assert isinstance(outcome, FitError)
    assert outcome.reasons == {"no": 2, "node(s) didn't satisfy plugin(s) [Narrows]": 2}
    assert (outcome.evaluated, searching.rotation.next_start_index) == (2, 2)


def test_pending_answer_is_known_as_such() -> None:
    pending = Status(Code.PENDING, ("wait for the claim",))
    outcome = SearchFixture(build_profile(Remembers("A", on("a", pending))), [make_node("a")]).run(make_pod())
    assert isinstance(outcome, FitError)
    assert outcome.rejectors == outcome.pending == {"A"}


def test_without_nodes_the_attempt_fails() -> None:
    outcome = SearchFixture(build_profile(Likes)).run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert outcome.status.message == "no nodes available to schedule pods"


class Codes(Plugin):
    """Rejects every node with one bit, and formats it as given."""

    name = "Codes"
    reads = "node"

    def __init__(self, words: Callable[[], object]) -> None:
        self.words = words

    @hookimpl
    def filter_nodes(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        return np.ones_like(nodes.unschedulable.values[rows])

    @hookimpl
    def filter_status(self, pod: PendingPod, bits: int) -> Status:
        return self.words()  # type: ignore[return-value]  # nonsense, sometimes


@pytest.mark.parametrize("words", [lambda: None, lambda: Skip, lambda: 1 // 0, lambda: "no"])
def test_reason_bits_without_words_are_a_fault(words: Callable[[], object]) -> None:
    outcome = SearchFixture(build_profile(Codes(words)), map(make_node, "ab")).run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert outcome.status.message.startswith("plugin 'Codes', hook filter_status: ")


def test_best_node_is_chosen_and_the_three_best_are_named() -> None:
    searching = SearchFixture(build_profile(Likes, Stretches, weights={"Stretches": 2}), scored(a=10, b=30, c=20, d=0))
    assert searching.run(make_pod()) == ScheduleResult("b", 230, 1, 4, 4, (("b", 230), ("c", 152), ("a", 76)))


def test_equals_are_drawn_by_lot() -> None:
    searching = SearchFixture(build_profile(Likes), scored(a=5, b=5, c=4))
    drawn = [searching.run(make_pod()) for _ in range(20)]
    assert all(isinstance(found, ScheduleResult) and found.ties == 2 for found in drawn)
    assert {found.node for found in drawn if isinstance(found, ScheduleResult)} == {"a", "b"}


def test_only_feasible_nodes_are_normalised_together() -> None:
    profile = build_profile(Remembers("A", on("a", no)), Stretches)
    found = SearchFixture(profile, scored(a=1000, b=30, c=20)).run(make_pod())
    assert isinstance(found, ScheduleResult)
    assert found.best == (("b", 100), ("c", 0))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": 1, "b": 101}, 'plugin "Likes" returns an invalid score 101, it should in the range of [0, 100]'),
        ({"a": 1, "b": -1}, 'plugin "Likes" returns an invalid score -1, it should in the range of [0, 100]'),
        ({"a": 1, "b": "x"}, "plugin 'Likes', hook score: ValueError: invalid literal for int()"),
    ],
)
def test_score_that_is_none_is_a_fault(scores: dict[str, object], message: str) -> None:
    outcome = SearchFixture(build_profile(Likes), scored(**scores)).run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert message in outcome.status.message


def test_score_of_a_node_that_is_not_feasible_is_no_fault() -> None:
    profile = build_profile(Remembers("A", on("b", no)), Likes)
    searching = SearchFixture(profile, scored(a=1, b="x", c=2))
    searching.cluster.put_node(make_node("b", labels={"score": "y"}))
    outcome = searching.run(make_pod())
    assert isinstance(outcome, ScheduleResult)
    assert outcome.node == "c"


class Floats(Likes):
    """Normalises to what is no integer."""

    name = "Floats"

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PendingPod, scores: Scores) -> Scores:
        return scores / 2  # type: ignore[return-value]  # the mistake


def test_normalised_scores_that_are_no_integers_are_a_fault() -> None:
    outcome = SearchFixture(build_profile(Floats), scored(a=1, b=2)).run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert outcome.status.message.startswith("plugin 'Floats', hook normalize_score: TypeError: ")


class AddsUp(Plugin):
    """Stores how many pods it has seen come."""

    name = "AddsUp"
    reads = "pods"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return None

    @hookimpl
    def add_pod(self, state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo) -> Status | None:
        return unschedulable(f"cannot add {other.name}")


def test_nominated_pod_that_cannot_be_added_is_a_fault() -> None:
    searching = SearchFixture(build_profile(AddsUp), map(make_node, "ab"))
    searching.cluster.nominator.nominate(searching.pending(make_pod("rival")), "a")
    outcome = searching.run(make_pod())
    assert isinstance(outcome, ScheduleError)
    assert outcome.status.message == 'running AddPod on PreFilter plugin "AddsUp": cannot add rival'


def test_pod_pinned_to_few_nodes_asks_only_those() -> None:
    remembering = Remembers("A", on("a", no))
    nodes: Sequence[Node] = [*map(make_node, "abc"), *(make_node(f"n{n}") for n in range(40))]
    searching = SearchFixture(build_profile(Narrows("a", "b"), remembering, Likes), nodes)
    assert searching.run(make_pod()) == ScheduleResult("b", 0, 1, 2, 1)
    assert remembering.asked == ["a", "b"]
