"""A profile is compiled from its plugins, and says which plugin and hook is at fault."""

from __future__ import annotations

from bdb import BdbQuit
from collections.abc import Hashable, Sequence
from typing import Any, cast

import pytest

from kframework import (
    NOTHING,
    ActionType,
    ClusterEvent,
    CycleState,
    Handle,
    NodeInfo,
    Plugin,
    StateKey,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep
from kframework.framework.cycle_state import StateKeyError
from kframework.framework.events import DEFAULT_EVENTS
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin, profile
from tests.support.searches import SearchFixture, build_profile


def test_steps_are_in_configured_order_and_unreserve_is_reversed() -> None:
    compiled = profile(
        plugin("A", filter=None, reserve=None, unreserve=None),
        plugin("B", score=0, unreserve=None),
        plugin("C", filter=None, reserve=None),
        weights={"B": 3},
    )
    assert [(step.order, step.name) for step in compiled.filters] == [(0, "A"), (1, "C")]
    assert [(step.name, step.weight) for step in compiled.scores] == [("B", 3)]
    assert [step.name for step in compiled.reserve] == ["A", "C"]
    assert [step.name for step in compiled.unreserve] == ["B", "A"]
    assert [each.name for each in compiled.placement] == ["A", "B", "C"]
    assert compiled.index == {"A": 0, "B": 1, "C": 2}


def test_weight_zero_means_one() -> None:
    assert [step.weight for step in profile(plugin("A", score=0), weights={"A": 0}).scores] == [1]


FAULT: Any = None


def test_filter_and_score_have_a_scalar_and_a_columnar_form() -> None:
    scalar = FilterStep(plugin("A", filter=None)(plugin("A").Args(), cast("Handle", None)), 0, FAULT)
    assert scalar.scalar and scalar.run_rows is None and scalar.add_pod is None
    columnar = ScoreStep(plugin("A", score_nodes=3)(plugin("A").Args(), cast("Handle", None)), 2, FAULT)
    assert not columnar.scalar and columnar.run_rows is not None and columnar.normalize is None


def test_events_of_rejecting_plugins_are_registered() -> None:
    node_add = ClusterEvent("Node", ActionType.ADD)
    both = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
    compiled = profile(
        plugin("A", filter=None, events=None),
        plugin("B", filter=None, events=()),
        plugin("C", filter=None, events=[node_add]),
        plugin("D", filter=None, events=[both]),
    )
    assert compiled.events["A"] == DEFAULT_EVENTS
    assert compiled.events["B"] == ()
    assert compiled.events["C"] == (node_add,)
    assert compiled.events["D"] == (both,)


def test_equal_pods_share_one_signature() -> None:
    compiled, interned = profile(plugin("A", filter=None, reads="node"), plugin("B", filter=None)), TemplateInterner()
    one, two, other = (PendingPod(pod, interned) for pod in (make_pod("1"), make_pod("2"), make_pod("3", cpu=2)))
    assert compiled.sign(one) is compiled.sign(two)
    assert compiled.sign(one) is not compiled.sign(other)
    assert [value is None for value in compiled.sign(one).values] == [False, True]


TEAMS: Sequence[dict[str, str]] = ({"team": "a"}, {"team": "a"}, {})


class Counting(Plugin):
    """Signs by a label, and counts how often it is asked."""

    name = "Counting"
    reads = "node"
    sign_reads = ()
    asked = 0

    @hookimpl
    def sign(self, pod: PendingPod) -> Hashable:
        Counting.asked += 1
        return NOTHING if "team" not in pod.labels else pod.labels["team"]

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return unschedulable("not for you")

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        return unschedulable("not for you")


def test_pods_of_one_template_are_signed_once_per_epoch() -> None:
    compiled, interned = profile(Counting, plugin("B", filter=None, sign="each")), TemplateInterner()
    alike = [PendingPod(make_pod(name, labels={"team": "a"}), interned) for name in "12"]
    other = PendingPod(make_pod("3", labels={"team": "b"}), interned)
    Counting.asked = 0
    first, second, third = (compiled.sign(pod, epoch=1) for pod in (*alike, other))
    assert first is second is not third
    assert Counting.asked == 2
    assert compiled.sign(alike[0], epoch=2) is first and Counting.asked == 3
    assert compiled.sign(alike[0]) is first and Counting.asked == 4


class Domains(Counting):
    """Signs as above, and reads domains."""

    name = "Domains"
    reads = "domains"  # type: ignore[assignment]  # mypy takes the other for the only value


def test_plugin_that_reads_domains_does_not_sign_the_first_pod_of_a_kind() -> None:
    compiled, interned = profile(Domains), TemplateInterner()
    one, two, other = (PendingPod(make_pod(n, labels=own), interned) for n, own in zip("123", TEAMS, strict=True))
    assert [compiled.sign(pod, epoch=1).values[0] for pod in (one, two, other)] == [None, "a", NOTHING]
    assert compiled.sign(one, epoch=2).values[0] == "a"


def test_plugin_without_sign_reads_signs_each_pod() -> None:
    compiled, interned = profile(plugin("A", filter=None, reads="node")), TemplateInterner()
    one, two = (PendingPod(make_pod("1", annotations={"a": value}), interned) for value in "xy")
    assert one.kind is two.kind
    assert compiled.sign(one, epoch=1) is not compiled.sign(two, epoch=1)


def knows(signed: Profile, revision: str) -> bool:
    """Sign a pod of its own template; return whether a plugin without `sign` may cache its answers."""
    pod = PendingPod(make_pod(cpu="1", annotations={"revision": revision}), TemplateInterner())
    first, second = signed.without_new_fields(signed.sign(pod), pod).values
    assert first is None, "it says nothing"
    return second is not None


def test_all_fields_are_signed_from_the_second_pod_with_them_on() -> None:
    signed = profile(plugin("Silent", filter=None), plugin("Reading", reads="node", filter=None))
    assert [knows(signed, revision) for revision in "abab"] == [False, False, True, True]


def test_only_the_fields_of_the_last_pods_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kframework.core.runtime.profile._RECENT", 2)
    signed = profile(plugin("Silent", filter=None), plugin("Reading", reads="node", filter=None))
    known = {"ab": [False, False], "ba": [True, True], "cd": [False, False], "ac": [True, True], "ef": [False, False]}
    assert {pods: [knows(signed, each) for each in pods] for pods in known} == known
    assert [knows(signed, each) for each in "ghb"] == [False, False, False]
    assert len(signed._recent) + len(signed._earlier) <= 4


def test_plugin_that_returns_skip_is_called_nowhere() -> None:
    searching = SearchFixture(build_profile(Counting), [make_node("a"), make_node("b")])
    plan = searching.plan(make_pod())
    assert [step.name for step in plan.filters] == []
    assert [step.name for step in plan.profile.reserve] == []
    assert [step.name for step in searching.plan(make_pod(labels={"team": "a"})).profile.reserve] == ["Counting"]


def test_fault_names_plugin_hook_and_distribution() -> None:
    compiled = profile(plugin("A", filter=None))
    assert (
        str(compiled.fault_error("A", "filter", ValueError("x")))
        == "plugin 'A' (from acme 1.0), hook filter: ValueError: x"
    )
    assert str(compiled.fault_error("Sort", "queue_sort", "text")) == "plugin 'Sort', hook queue_sort: text"


def test_debugger_quit_in_a_hook_is_raised() -> None:
    with pytest.raises(BdbQuit):
        profile(plugin("A", filter=None)).fault_status("A", "filter", BdbQuit())


KEY = StateKey[int]("A.count")


@pytest.mark.parametrize(
    ("hooks", "hook", "missing"),
    [
        (("pre_score", "score"), "score", "; plugin 'A' can store it in pre_score, but is not enabled at preScore"),
        (("pre_filter", "filter", "pre_score"), "filter", "; plugin 'A' can store it in pre_filter"),
        (("score",), "score", ""),
        (
            ("pre_filter", "pre_score", "permit"),
            "permit",
            "; plugin 'A' can store it in pre_filter or pre_score, but is not enabled at preScore",
        ),
    ],
)
def test_missing_state_key_names_the_hooks_that_store_it(hooks: Sequence[str], hook: str, missing: str) -> None:
    storing = plugin("A", **cast("Any", dict.fromkeys(hooks)))
    storing.__module__ = __name__
    compiled = profile(storing, plugin("B", pre_filter=None), without={"pre_score"})
    fault = compiled.fault_error("A", hook, StateKeyError(KEY))
    assert fault.message == f"StateKeyError: nothing is stored under 'A.count', a key of {__name__}{missing}"


def test_missing_state_key_of_another_plugin_names_that_plugin() -> None:
    storing = plugin("A", pre_filter=None)
    storing.__module__ = __name__
    fault = profile(storing, plugin("B", filter=None)).fault_error("B", "filter", StateKeyError(KEY))
    assert fault.message.endswith(f"a key of {__name__}; plugin 'A' can store it in pre_filter")
