"""Every plugin keeps the contract, and the questions come by everything that it can answer."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kframework import Code, Plugin
from kframework.plugins import node_name, node_unschedulable, taint_toleration
from kframework.plugins.node_resources_fit import INSUFFICIENT, TOO_MANY_PODS
from kframework.registry import hooks_of
from kframework.testing import Reached, check_plugin, make_pod
from tests.contract.lines import LinesReached
from tests.contract.plugins import PLACEMENT, plugins

#: So many clusters for each plugin and its Args.
EXAMPLES = int(os.environ.get("KFRAMEWORK_EXAMPLES", "8"))
#: What the questions come by at least so often counts as covered.
LEAST = 5

U, UU = Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE

#: A line from use to score that falls, rises, and holds back at both ends.
SHAPE = [{"utilization": 10, "score": 10}, {"utilization": 40, "score": 0}, {"utilization": 90, "score": 7}]
RATIO = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": SHAPE}}
RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "ephemeral-storage", "weight": 2}, {"name": "example.com/gpu"}]

#: The Args to check a plugin with; {} if it is not here.
ARGS: Mapping[str, list[dict[str, Any]]] = {
    "FewestPods": [{"maxPodsPerNode": 2}],
    "NodeResourcesFit": [
        {},
        {"scoringStrategy": {"type": "MostAllocated", "resources": RESOURCES}},
        {"scoringStrategy": RATIO | {"resources": RESOURCES}},
        {"ignoredResources": ["example.com/gpu"], "ignoredResourceGroups": ["other.example.com"]},
    ],
}
EVERY_RESOURCE = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "other.example.com/fpga", "hugepages-2Mi")
#: Every reason that a plugin can give.
REASONS: Mapping[str, set[str]] = {
    "FewestPods": {"node(s) ran 2 pods already"},
    "NodeName": {node_name.REASON},
    "NodeResourcesFit": {TOO_MANY_PODS, *map(INSUFFICIENT.format, EVERY_RESOURCE)},
    "NodeUnschedulable": {node_unschedulable.REASON},
    "TaintToleration": {taint_toleration.REASON},
    "Together": {"label together.example.com/size must be the number of pods in the group"},
}
CODES = {"FewestPods": {U}, "NodeResourcesFit": {U, UU}}
#: Raw scores that a plugin must have been seen to give.
SCORES: Mapping[str, set[int]] = {
    "FewestPods": {0, -1},
    "NodeResourcesFit": {0, 100},
    "TaintToleration": {0, 1, 2},
}
#: Pods that a plugin is about and that no random pod is like.
PODS = {"Together": [make_pod("half", labels={"together.example.com/group": "g"})]}

every_plugin = pytest.mark.parametrize("name", plugins())


@cache
def reached(name: str) -> Reached:
    """Check a plugin with all its Args, and add up what was come by."""
    total = Reached()
    for args in ARGS.get(name, [{}]):
        check(name, args, total)
    return total


def check(name: str, args: dict[str, Any], total: Reached) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(seed=st.integers(0, 2**32))
    def ask(seed: int) -> None:
        found = check_plugin(plugins()[name], args=args, pods=PODS.get(name, ()), examples=1, seed=seed)
        total.reasons.update(found.reasons)
        total.codes.update(found.codes)
        total.scores.update(found.scores)
        total.passes += found.passes

    ask()


@every_plugin
def test_the_contract_is_kept(name: str) -> None:
    reached(name)


@every_plugin
def test_every_reason_is_given(name: str) -> None:
    found = reached(name)
    assert name in REASONS, f"list the reasons of {name} here, and Args that make it give them"
    assert found.reasons.keys() == REASONS[name]
    assert min(found.reasons.values()) >= LEAST, found.reasons
    assert found.codes.keys() == CODES.get(name, {UU})
    assert min(found.codes.values()) >= LEAST
    asks_nodes = bool(hooks_of(plugins()[name]).keys() & {"filter", "filter_nodes"})
    assert (found.passes >= LEAST) is asks_nodes


@every_plugin
def test_scores_differ(name: str) -> None:
    found, wanted = reached(name), SCORES.get(name, set())
    assert {score for score in wanted if found.scores[score] >= LEAST} == wanted
    assert bool(found.scores) is bool(wanted)


def test_resources_that_are_ignored_are_not_missed() -> None:
    args = ARGS["NodeResourcesFit"][-1]
    found = check_plugin(plugins()["NodeResourcesFit"], args=args, examples=EXAMPLES)
    ignored = {INSUFFICIENT.format(resource) for resource in ("example.com/gpu", "other.example.com/fpga")}
    assert found.reasons.keys() == REASONS["NodeResourcesFit"] - ignored


@every_plugin
def test_every_line_of_an_answer_is_come_by(name: str) -> None:
    """Without the lines of what only events ask, which are not entered at all."""
    plugin = plugins()[name]
    with LinesReached(inspect.getfile(plugin)) as lines:
        for args in ARGS.get(name, [{}]):
            check_plugin(plugin, args=args, pods=PODS.get(name, ()), examples=LEAST)
    assert list(lines.missed(LEAST)) == []
    assert {hook for hook in PLACEMENT if _code(plugin, hook) not in {*lines.entered, None}} == set()


def _code(plugin: type[Plugin], hook: str) -> object:
    return getattr(plugin, hook).__code__ if hook in hooks_of(plugin) else None


def test_lines_that_are_not_come_by_are_told() -> None:
    def often(number: int) -> str:
        if number:
            return "never"
        return "always"

    with LinesReached(__file__) as lines:
        for _ in range(LEAST):
            often(0)
    (missed,) = lines.missed(LEAST)
    assert "often, line " in missed and missed.endswith(": 0 times")
