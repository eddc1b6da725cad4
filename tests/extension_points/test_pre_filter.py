"""PreFilter: the pod as a whole is accepted, rejected, or narrowed to some nodes."""

from __future__ import annotations

import pytest

from kframework import ActionType, ClusterEvent, Code, CycleState, Skip, Status, error, unresolvable, unschedulable
from kframework.framework.cycle_state import StateKey
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import create
from tests.extension_points.scripted import plugin, run, scenario

NODE_ADD = ClusterEvent("Node", ActionType.ADD)


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS), Skip])
def test_pod_that_passes_pre_filter_is_bound(answer: Status | None) -> None:
    assert run(plugin("A", pre_filter=answer, filter=None)).state_of("pod") == "bound"


def test_skip_skips_only_the_filter_of_that_plugin() -> None:
    skipping = plugin("A", pre_filter=Skip, filter=unschedulable("not asked"))
    other = plugin("B", filter=unschedulable("asked"))
    assert run(skipping, other).message_of("pod") == "0/1 nodes are available: 1 asked."


@pytest.mark.parametrize(
    ("answer", "place", "reason", "message", "rejectors"),
    [
        (unschedulable("too odd"), "unschedulable", "Unschedulable", "0/2 nodes are available: too odd.", {"A"}),
        (unresolvable("too odd"), "unschedulable", "Unschedulable", "0/2 nodes are available: too odd.", {"A"}),
        (unresolvable("one", "two"), "unschedulable", "Unschedulable", "0/2 nodes are available: one, two.", {"A"}),
        (unschedulable(), "unschedulable", "Unschedulable", "0/2 nodes are available:", {"A"}),
        (error("broken"), "backoff", "SchedulerError", 'running PreFilter plugin "A": broken', set()),
        (
            Status(Code.PENDING, ("later",)),
            "backoff",
            "SchedulerError",
            'running PreFilter plugin "A": later',
            set(),
        ),
        (Status(Code.WAIT), "backoff", "SchedulerError", 'running PreFilter plugin "A": Wait', set()),
        (
            ValueError("broken"),
            "backoff",
            "SchedulerError",
            "plugin 'A', hook pre_filter: ValueError: broken",
            set(),
        ),
        (
            "broken",
            "backoff",
            "SchedulerError",
            "plugin 'A', hook pre_filter: answered 'broken', which is not a Status",
            set(),
        ),
    ],
)
def test_pod_rejected_by_pre_filter_is_unschedulable(
    answer: object, place: str, reason: str, message: str, rejectors: set[str]
) -> None:
    result = run(plugin("A", pre_filter=answer), nodes=("a", "b"))
    condition = result.condition_of("pod")
    assert condition is not None
    assert result.state_of("pod") == place
    assert (condition.status, condition.reason, condition.message) == ("False", reason, message)
    assert result.events_on("pod") == [("FailedScheduling", message)]
    assert result.queued("pod").rejectors == rejectors


def test_later_pre_filter_plugins_run_after_unschedulable() -> None:
    journal: list[str] = []
    first = plugin("A", pre_filter=unschedulable("first"), journal=journal)
    second = plugin("B", pre_filter=unschedulable("second"), journal=journal)
    result = run(first, second)
    assert journal[:2] == ["A.pre_filter", "B.pre_filter"]
    assert result.message_of("pod") == "0/1 nodes are available: second."
    assert result.queued("pod").rejectors == {"B"}, "the earlier plugin is lost, as in kube-scheduler"


@pytest.mark.parametrize(
    ("last", "message", "rejectors"),
    [
        (unresolvable("last"), "0/1 nodes are available: last.", {"Last"}),
        (error("last"), 'running PreFilter plugin "Last": last', set()),
        ({"elsewhere"}, "0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [Last].", {"Last"}),
        (set(), "0/1 nodes are available: node(s) didn't satisfy plugin Last.", {"Last"}),
    ],
)
def test_later_pre_filter_rejection_replaces_unschedulable(last: object, message: str, rejectors: set[str]) -> None:
    result = run(plugin("A", pre_filter=unschedulable("first")), plugin("Last", pre_filter=last))
    if last == {"elsewhere"}:  # narrows, but leaves the rejection standing
        message, rejectors = "0/1 nodes are available: first.", {"A", "Last"}
    assert result.message_of("pod") == message
    assert result.queued("pod").rejectors == rejectors


@pytest.mark.parametrize("end", [unresolvable("end"), error("end"), ValueError("end"), set()])
def test_unresolvable_and_errors_end_pre_filter_at_once(end: object) -> None:
    journal: list[str] = []
    run(plugin("A", pre_filter=end), plugin("B", pre_filter=None, journal=journal))
    assert "B.pre_filter" not in journal


def test_node_names_are_ignored_after_unresolvable() -> None:
    result = run(plugin("A", pre_filter={"a"}), plugin("B", pre_filter=unresolvable("no")))
    assert result.queued("pod").rejectors == {"B"}


def test_only_the_named_nodes_are_filtered() -> None:
    pre_filter_result = plugin("A", pre_filter={"b", "c"})
    also = plugin("B", pre_filter=frozenset({"c", "d"}))
    assert run(pre_filter_result, also, nodes=tuple("abcd")).node_of("pod") == "c"


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([set()], "node(s) didn't satisfy plugin A."),
        ([{"a"}, {"b"}], "node(s) didn't satisfy plugin(s) [A B] simultaneously."),
        ([{"b"}, {"a", "b"}, {"a"}], "node(s) didn't satisfy plugin(s) [A B C] simultaneously."),
    ],
)
def test_disjoint_node_names_reject_the_pod(sets: list[set[str]], message: str) -> None:
    plugins = [plugin(name, pre_filter=names) for name, names in zip("ABC", sets, strict=False)]
    result = run(*plugins[-2:], *plugins[:-2], nodes=("a", "b"))
    assert result.message_of("pod") == f"0/2 nodes are available: {message}"
    assert result.queued("pod").rejectors == {each.name for each in plugins}
    assert result.state_of("pod") == "unschedulable"


def test_message_distinguishes_rejected_from_excluded_nodes() -> None:
    plugins = [plugin("B", pre_filter={"a", "b"}), plugin("A", pre_filter={"a", "b", "c"})]
    result = run(*plugins, plugin("F", filter=unschedulable("full")), nodes=tuple("abcd"))
    assert result.message_of("pod") == ("0/4 nodes are available: 2 full, 2 node(s) didn't satisfy plugin(s) [A B].")
    assert result.queued("pod").rejectors == {"A", "B", "F"}


def test_names_of_unknown_nodes_exclude_all_nodes() -> None:
    result = run(plugin("A", pre_filter={"nowhere"}), nodes=("a", "b"))
    assert result.message_of("pod") == "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [A]."
    assert result.queued("pod").rejectors == {"A"}


def test_named_node_that_appears_later_is_used() -> None:
    pre_filter_result = plugin("A", pre_filter={"late"}, events=[NODE_ADD])
    assert scenario(pre_filter_result).at(3.0, create(make_node("late"))).run().node_of("pod") == "late"


@pytest.mark.parametrize(("events", "attempts"), [([NODE_ADD], 2), ([], 1), ([ClusterEvent("Pod", ActionType.ADD)], 1)])
def test_only_events_of_the_rejector_requeue_the_pod(events: list[ClusterEvent], attempts: int) -> None:
    rejecting = plugin("A", pre_filter=unschedulable("no"), events=events)
    bystander = plugin("B", filter=None, events=[NODE_ADD])
    result = scenario(rejecting, bystander).at(20.0, create(make_node("b"))).run()
    assert len(result.decisions) == attempts


def test_state_of_pre_filter_is_available_in_filter() -> None:
    key = StateKey[str]("A")

    def store(state: CycleState, *_: object) -> None:
        state[key] = "full of eels"

    result = run(plugin("A", pre_filter=store, filter=lambda state, pod, node: unschedulable(state[key])))
    assert result.message_of("pod") == "0/1 nodes are available: 1 full of eels."


def test_missing_state_key_is_a_plugin_fault() -> None:
    key = StateKey[str]("A")
    result = run(plugin("A", filter=lambda state, pod, node: unschedulable(state[key])))
    assert result.message_of("pod") == (
        f"plugin 'A', hook filter: StateKeyError: nothing is stored under 'A', a key of {__name__}"
    )


def test_pre_filter_is_not_called_without_nodes() -> None:
    journal: list[str] = []
    asked = plugin("A", pre_filter=None, post_filter=None, journal=journal, events=[NODE_ADD])
    result = run(asked, nodes=(), pods=[make_pod(nominated_node_name="gone")])
    assert result.message_of("pod") == "no nodes available to schedule pods"
    condition = result.condition_of("pod")
    assert condition is not None and condition.reason == "Unschedulable"
    assert result.state_of("pod") == "backoff", "nobody rejected it, so no event is waited for"
    assert result.pod("pod").status.nominated_node_name == ""
    assert journal == []
