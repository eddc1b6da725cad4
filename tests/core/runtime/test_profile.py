"""A profile refuses what the contract does not allow, and says which plugin and hook it is."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest

from kframework import ActionType, ClusterEvent, Handle, Plugin, PluginError, hookimpl
from kframework.core.runtime.steps import FilterStep, ScoreStep
from kframework.framework.events import DEFAULT_EVENTS
from kframework.state.pods import Interned, PendingPod
from kframework.testing import make_pod
from tests.extension_points.scripted import plugin, profile


def named(hook: str, method: Any, **options: bool) -> type[Plugin]:
    """Make a plugin A whose hook is just this function."""
    made = plugin("A")
    setattr(made, hook, cast("Any", hookimpl)(**options)(method))
    return made


async def permit(self: Plugin, state: object, pod: object, node_name: object) -> None: ...


def around(self: Plugin, state: object, pod: object, node: object) -> Generator[None, object, object]:
    return (yield)


def around_bind(self: Plugin, state: object, pod: object, node_name: object) -> Generator[None, object, object]:
    return (yield)


def around_permit(self: Plugin, state: object, pod: object, node_name: object) -> Generator[None, object, object]:
    return (yield)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            named("filter", lambda self, state, pod, node: None, tryfirst=True),
            "hook filter: tryfirst and trylast are refused: order comes from the configuration",
        ),
        (
            named("filter", lambda self, state, pod, node: None, trylast=True),
            "hook filter: tryfirst and trylast are refused: order comes from the configuration",
        ),
        (named("filter", around, wrapper=True), "hook filter: this point cannot be wrapped"),
        (named("bind", around_bind, wrapper=True), "hook bind: this point cannot be wrapped"),
        (
            named("permit", around_permit, hookwrapper=True),
            "hook permit: write the wrapper in the new style: @hookwrapper",
        ),
        (
            named("filter", lambda self, pod, state, node: None),
            "hook filter: takes (pod, state, node) where the contract says (state, pod, node)",
        ),
        (
            named("filter", lambda self, state, pod: None),
            "hook filter: takes (state, pod) where the contract says (state, pod, node)",
        ),
        (named("filter", lambda self, state, pod, info: None), "info"),
        (named("filter", lambda self, *args: None), "hook filter: takes (args) where the contract says"),
        (named("permit", permit), "hook permit: must be a plain function: the cluster stands still while it runs"),
        (plugin("A", filter_nodes=0), "hook filter_nodes: needs filter_status beside it, to put its bits into words"),
        (named("flter", lambda self, state, pod, node: None), "flter"),
    ],
)
def test_what_is_refused(wrong: type[Plugin], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        profile(wrong)
    assert str(caught.value).startswith("plugin 'A' (from acme 1.0)")
    assert message in str(caught.value)


@pytest.mark.parametrize("hook", ["pre_bind", "bind", "post_bind"])
def test_hooks_that_may_be_awaited(hook: str) -> None:
    assert profile(named(hook, permit))


def test_steps_stand_in_configured_order_and_unreserve_backwards() -> None:
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


def test_a_weight_of_nought_is_one() -> None:
    assert [step.weight for step in profile(plugin("A", score=0), weights={"A": 0}).scores] == [1]


FAULT: Any = None


def test_forms_of_a_question() -> None:
    scalar = FilterStep(plugin("A", filter=None)(plugin("A").Args(), cast("Handle", None)), 0, FAULT)
    assert scalar.scalar and scalar.ask_rows is None and scalar.add_pod is None
    columnar = ScoreStep(plugin("A", score_nodes=3)(plugin("A").Args(), cast("Handle", None)), 2, FAULT)
    assert not columnar.scalar and columnar.ask_rows is not None and columnar.normalize is None


def test_what_wakes_a_pod() -> None:
    node_add = ClusterEvent("Node", ActionType.ADD)
    taint = ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT)
    both = ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_TAINT)
    compiled = profile(
        plugin("A", filter=None, events=None),
        plugin("B", filter=None, events=()),
        plugin("C", filter=None, events=[node_add]),
        plugin("D", filter=None, events=[both]),
    )
    assert compiled.events["A"] == DEFAULT_EVENTS
    assert compiled.events["B"] == ()
    assert compiled.events["C"] == (node_add, taint)
    assert compiled.events["D"] == (both,)


def test_equal_pods_share_a_signature() -> None:
    compiled, interned = profile(plugin("A", filter=None, reads="node"), plugin("B", filter=None)), Interned()
    one, two, other = (PendingPod(pod, interned) for pod in (make_pod("1"), make_pod("2"), make_pod("3", cpu=2)))
    assert compiled.sign(one) is compiled.sign(two)
    assert compiled.sign(one) is not compiled.sign(other)
    assert [value is None for value in compiled.sign(one).values] == [False, True]


def test_faults_name_plugin_hook_and_distribution() -> None:
    compiled = profile(plugin("A", filter=None))
    assert (
        str(compiled.fault("A", "filter", ValueError("x"))) == "plugin 'A' (from acme 1.0), hook filter: ValueError: x"
    )
    assert str(compiled.fault("Sort", "queue_sort", "text")) == "plugin 'Sort', hook queue_sort: text"
