"""The search with extenders is the one without, but for what they say; who says nothing changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kframework import Code, PendingPod, Status, unresolvable, unschedulable
from kframework.core.cycle.oracle import Oracle, verify
from kframework.core.cycle.plan import PlanCache
from kframework.core.cycle.results import FitError, ScheduleError, ScheduleResult
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.framework.suspendable import run_async
from kframework.scheduler.extender import Extender
from kframework.scheduler.extenders import Extenders
from kframework.testing import make_node, make_pod
from kframework.testing.clusters import RandomCluster
from tests.extension_points.scripted import plugin
from tests.properties.search_comparison import random_profile, reference_nodes_to_find
from tests.support.extenders import NO_ANSWER, Answer, accept_except, extender, node_names_in
from tests.support.searches import Outcome, SearchFixture, build_profile


class Extended(SearchFixture):
    """Searches in which extenders have a say."""

    def run_with(self, *extenders: Extender, pod: PendingPod | None = None) -> tuple[Search, Outcome]:
        pending = pod or self.pending(make_pod())
        said = Extenders(extenders)
        search = Search(self.cluster, self.plan(pending), pending, self.rotation, self.random, extenders=said)
        outcome = asyncio.run(run_async(search.steps()))
        verify(search, outcome)
        return search, outcome


def letters(answers: dict[str, Status]) -> Any:
    """Answer by the name of the node."""
    return lambda state, pod, node: answers.get(node.name)


FILTER = plugin("F", filter=letters({"a": unschedulable("full"), "b": unresolvable("wrong")}))
LENGTH = plugin("S", score=lambda state, pod, node: len(node.labels) + 10 * (node.name == "e"))


def nodes(names: str) -> list[Any]:
    return [make_node(name) for name in names]


def test_extenders_choose_among_the_feasible_nodes() -> None:
    asked: list[list[str]] = []

    def answer(question: Any) -> object:
        asked.append(node_names_in(question))
        return accept_except("d")(question)

    _, outcome = Extended(build_profile(FILTER, LENGTH), nodes("abcde")).run_with(extender({"filter": answer}))
    assert asked == [["c", "d", "e"]]
    assert outcome == ScheduleResult("d", 0, 1, 5, 1)


def test_one_node_left_is_not_scored() -> None:
    scoring = extender({"prioritize": NO_ANSWER})
    _, outcome = Extended(build_profile(LENGTH), nodes("a")).run_with(scoring)
    assert outcome == ScheduleResult("a", 0, 1, 1, 1)


def test_scores_of_extenders_add_to_the_totals() -> None:
    scores = [{"Host": "c", "Score": 1}, {"Host": "d", "Score": -2}, {"Host": "unknown", "Score": 10}]
    search, outcome = Extended(build_profile(LENGTH), nodes("cde")).run_with(extender({"prioritize": scores}, weight=2))
    base = {search.nodes[row].name: total for row, total in zip(search.feasible.tolist(), search.totals, strict=True)}
    top = (("c", base["c"] + 20), ("e", base["e"]), ("d", base["d"] - 40))
    assert outcome == ScheduleResult("c", base["c"] + 20, 1, 3, 3, top)


def test_totals_may_sink_below_zero() -> None:
    scores = [{"Host": name, "Score": score} for name, score in (("a", -5), ("b", -4), ("c", -4))]
    _, outcome = Extended(build_profile(), nodes("abc")).run_with(extender({"prioritize": scores}))
    assert isinstance(outcome, ScheduleResult)
    assert (outcome.score, outcome.ties, outcome.node in "bc") == (-40, 2, True)
    assert outcome.best == (("b", -40), ("c", -40), ("a", -50))


def test_without_score_plugins_the_totals_start_at_zero() -> None:
    _, outcome = Extended(build_profile(), nodes("ab")).run_with(extender({"filter": accept_except()}))
    assert isinstance(outcome, ScheduleResult)
    assert (outcome.score, outcome.ties, outcome.feasible) == (0, 2, 2)


@pytest.mark.parametrize(
    ("verbs", "evaluated"), [(["filter"], 4), (["prioritize"], 4), (["bind"], 1), (["preempt", "bind"], 1)]
)
def test_extenders_that_filter_or_prioritize_get_several_nodes(verbs: list[str], evaluated: int) -> None:
    answers: dict[str, Any] = {"filter": accept_except(), "prioritize": []}
    choosing = extender({verb: answers.get(verb, {}) for verb in verbs})
    extended = Extended(build_profile(), nodes("abcd"))
    _, outcome = extended.run_with(choosing)
    assert isinstance(outcome, ScheduleResult)
    assert outcome.evaluated == evaluated
    assert extended.rotation.next_start_index == evaluated % 4


def test_equals_are_drawn_from() -> None:
    extended = Extended(build_profile(), nodes("abc"))
    drawn = {extended.run_with(extender({"filter": accept_except("a", "c")}))[1].node for _ in range(30)}  # type: ignore[union-attr]  # ScheduleResult
    assert drawn == {"a", "c"}


def test_refusal_stands_against_its_node() -> None:
    refusing = extender({"filter": accept_except("none", failed={"c": "no c"}, unresolvable={"d": "never d"})})
    other = extender({"filter": NO_ANSWER})
    _, outcome = Extended(build_profile(FILTER), nodes("abcde")).run_with(refusing, other)
    assert isinstance(outcome, FitError)
    statuses = {node.name: outcome.diagnosis[node.row] for node in outcome.diagnosis.nodes}
    assert statuses == {
        "a": Status(Code.UNSCHEDULABLE, ("full",), "F"),
        "b": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("wrong",), "F"),
        "c": Status(Code.UNSCHEDULABLE, ("no c",), "Extender"),
        "d": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("never d",), "Extender"),
        "e": Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), "Extender"),
    }
    assert outcome.reasons == {"full": 1, "wrong": 1, "no c": 1, "never d": 1}
    assert outcome.rejectors == {"F", "Extender"}
    assert (outcome.pending, outcome.evaluated) == (frozenset(), 5)


def test_extender_that_was_not_asked_is_no_rejector() -> None:
    rejecting = plugin("F", filter=unschedulable("full"))
    _, outcome = Extended(build_profile(rejecting), nodes("ab")).run_with(extender({"filter": NO_ANSWER}))
    assert isinstance(outcome, FitError)
    assert outcome.rejectors == {"F"}


def test_extender_has_a_say_only_on_what_it_was_asked_about() -> None:
    overbearing = extender({"filter": accept_except("none", unresolvable={"a": "not asked", "x": "unknown"})})
    _, outcome = Extended(build_profile(FILTER), nodes("ac")).run_with(overbearing)
    assert isinstance(outcome, FitError)
    assert outcome.reasons == {"full": 1}
    assert outcome.rejectors == {"F", "Extender"}


def test_node_that_was_not_reached_is_not_blamed() -> None:
    """Of 120 nodes 100 are enough: the others have no status, as in kube-scheduler."""
    extended = Extended(build_profile(LENGTH, percentage=1), [make_node(f"n{number}") for number in range(120)])
    _, outcome = extended.run_with(extender({"filter": {"Nodes": {"items": []}, "FailedNodes": {"n0": "no"}}}))
    assert isinstance(outcome, FitError)
    assert outcome.evaluated == 100
    statuses = [outcome.diagnosis[node.row] for node in outcome.diagnosis.nodes]
    assert [status.plugin for status in statuses].count("Extender") == 100
    assert statuses.count(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)) == 20
    assert outcome.reasons == {"no": 1}


def test_first_rejection_is_known_though_some_node_passed() -> None:
    """A scalar filter that signs nothing is asked late; where no node is left, kube-scheduler's order counts."""
    first = plugin("First", filter=letters({"a": unschedulable("first")}))
    second = plugin("Second", reads="node", filter=letters(dict.fromkeys("ab", unschedulable("second"))))
    _, outcome = Extended(build_profile(first, second), nodes("abc")).run_with(extender({"filter": {}}))
    assert isinstance(outcome, FitError)
    assert outcome.reasons == {"first": 1, "second": 1}


def test_node_left_out_without_a_word_counts_with_those_that_were_out_of_the_question() -> None:
    pre_filter_result = plugin("N", pre_filter=frozenset(("a", "b")))
    _, outcome = Extended(build_profile(pre_filter_result), nodes("abc")).run_with(
        extender({"filter": accept_except("none")})
    )
    assert isinstance(outcome, FitError)
    text = "node(s) didn't satisfy plugin(s) [N]"
    assert outcome.reasons == {text: 3}
    assert outcome.rejectors == {"N", "Extender"}
    assert {outcome.diagnosis[node.row].reasons for node in outcome.diagnosis.nodes} == {(text,)}


def test_error_ends_the_search() -> None:
    extended = Extended(build_profile(), nodes("ab"))
    _, outcome = extended.run_with(extender({"filter": {"Error": "on fire"}}))
    assert outcome == ScheduleError(Status(Code.ERROR, ("on fire",)))
    assert extended.rotation.next_start_index == 0


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        (plugin("A", pre_filter=unschedulable("no")), Code.UNSCHEDULABLE),
        (plugin("A", filter=ValueError("x")), Code.ERROR),
        (plugin("A", score=101), Code.ERROR),
    ],
)
def test_fault_of_a_plugin_is_reported_with_extenders_too(failing: Any, code: Code) -> None:
    _, outcome = Extended(build_profile(failing), nodes("ab")).run_with(extender({"filter": accept_except()}))
    assert isinstance(outcome, FitError if code == Code.UNSCHEDULABLE else ScheduleError)


def test_without_nodes_nobody_is_asked() -> None:
    _, outcome = Extended(build_profile()).run_with(extender({"filter": NO_ANSWER}))
    assert outcome == ScheduleError(unresolvable("no nodes available to schedule pods"))


@pytest.mark.parametrize(
    ("answer", "asked", "node"),
    [
        (accept_except("a", "b"), [["b"]], "b"),
        (accept_except("a"), [["b"], ["a", "b"]], "a"),
        (
            lambda question: NO_ANSWER if node_names_in(question) == ["b"] else accept_except("a")(question),
            [["b"], ["a", "b"]],
            "a",
        ),
    ],
)
def test_nominated_node_is_asked_about_alone(answer: Any, asked: list[list[str]], node: str) -> None:
    questions: list[list[str]] = []

    def noted(question: Any) -> object:
        questions.append(node_names_in(question))
        return answer(question)

    extended = Extended(build_profile(LENGTH), nodes("ab"))
    pod = extended.pending(make_pod(nominated_node_name="b"))
    _, outcome = extended.run_with(extender({"filter": noted}), pod=pod)
    assert isinstance(outcome, ScheduleResult)
    assert (outcome.node, questions) == (node, asked)


def test_nominated_node_that_the_filters_refuse_is_not_asked_about() -> None:
    extended = Extended(build_profile(FILTER), nodes("ac"))
    pod = extended.pending(make_pod(nominated_node_name="a"))
    journal: list[tuple[str, Any]] = []
    _, outcome = extended.run_with(extender({"filter": accept_except()}, journal), pod=pod)
    assert isinstance(outcome, ScheduleResult)
    assert (outcome.node, [node_names_in(question) for _, question in journal]) == ("c", [["c"]])


def gives(points: Mapping[str, int]) -> Answer:
    """Give each node that is asked about its points."""
    return lambda asked: [{"Host": name, "Score": points[name]} for name in node_names_in(asked)]


def parts(search: Search, outcome: Outcome) -> object:
    """Return what there is to compare about an outcome."""
    if not isinstance(outcome, FitError):
        return outcome
    statuses = {node.name: outcome.diagnosis[node.row] for node in search.nodes}
    return (statuses, outcome.reasons, outcome.rejectors, outcome.pending, outcome.evaluated)


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_extender_that_lets_all_pass_and_scores_zero_changes_nothing(seed: int) -> None:
    random = Random(seed)
    cluster, profile = RandomCluster(random), random_profile(random)
    layers = PlanCache(profile, cluster.state.nodes, 1 << 20)
    nothing = dict.fromkeys((node.name for node in cluster.state.nodes), 0)
    zeros = extender({"filter": accept_except(), "prioritize": gives(nothing)})
    with patch("kframework.core.cycle.search.nodes_to_find", reference_nodes_to_find), patch("logging.Logger.error"):
        for pod in cluster.pending(3):
            plan, start = layers.plan(profile.sign(pod), pod), random.randrange(40)
            plain = Search(cluster.state, plan, pod, Rotation(start), Random(seed))
            if not plain.needs_scoring:
                continue
            expected = plain.run()
            extenders = Extenders([zeros])
            extended = Search(cluster.state, plan, pod, Rotation(start), Random(seed), extenders=extenders)
            outcome = asyncio.run(run_async(extended.steps()))
            assert parts(extended, outcome) == parts(plain, expected)
            assert extended.rotation.next_start_index == plain.rotation.next_start_index


@pytest.mark.slow
@settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_extenders_at_random_do_what_the_slow_rules_say(seed: int) -> None:
    random = Random(seed)
    cluster, profile = RandomCluster(random), random_profile(random)
    extended = Extended(profile, cluster=cluster.state)
    pick = {node.name: random.random() < 0.5 for node in cluster.state.nodes}
    points = {node.name: random.randint(0, 3) for node in cluster.state.nodes}
    refused = {name: f"not {name}" for name, picked in pick.items() if not picked}
    made = extender(
        {
            "filter": accept_except(failed=refused),
            "prioritize": gives(points),
        },
        weight=3,
    )
    with patch("logging.Logger.error"):
        for pod in cluster.pending(3):
            start = extended.rotation.next_start_index
            search, outcome = extended.run_with(made, pod=pod)
            if not isinstance(outcome, ScheduleError) and len(search.filtered.node_order):
                judge_slowly(search, outcome, start, refused, points)


def judge_slowly(search: Search, outcome: Outcome, start: int, refused: dict[str, str], points: dict[str, int]) -> None:
    """Ask every plugin about every node, then take away what the extender refuses and add what it gives."""
    slow = Oracle(search.cluster, search.profile, search.pod)
    statuses = {search.nodes[row]: slow.rejection(row) for row in slow.rows(start)}
    feasible = [node for node, status in statuses.items() if status is None and node.name not in refused]
    if isinstance(outcome, FitError):
        assert not feasible
        for node, status in statuses.items():
            wanted = status or Status(Code.UNSCHEDULABLE, (refused[node.name],), "Extender")
            assert outcome.diagnosis[node.row] == wanted
        assert ("Extender" in outcome.rejectors) == (None in statuses.values())
        return
    assert isinstance(outcome, ScheduleResult)
    assert outcome.feasible == len(feasible)
    if len(feasible) == 1:
        assert outcome.node == feasible[0].name
        return
    totals = slow.totals([node.row for node in feasible])
    assert isinstance(totals, dict)
    sums = {node.name: totals[node.row] + 30 * points[node.name] for node in feasible}
    assert outcome.score == max(sums.values()) == sums[outcome.node]
    assert outcome.ties == list(sums.values()).count(outcome.score)
