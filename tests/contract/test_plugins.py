"""Every plugin keeps the contract, and the questions come by everything that it can answer."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kframework import Code, Plugin
from kframework.objects import Affinity, ContainerRestartRule, ImageSource, Node, Pod, Volume
from kframework.plugins import (
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_unschedulable,
    taint_toleration,
)
from kframework.plugins.node_resources_fit import INSUFFICIENT, TOO_MANY_PODS
from kframework.registry import hooks_of
from kframework.testing import Reached, check_plugin, make_container, make_node, make_pod
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

#: On top of what a pod asks for: a node without HDD, and rather one with an SSD.
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["hdd"]}]}]
    },
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 9, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    ],
}

#: The Args to check a plugin with; {} if it is not here.
ARGS: Mapping[str, list[dict[str, Any]]] = {
    "FewestPods": [{"maxPodsPerNode": 2}],
    "NodeAffinity": [{}, {"addedAffinity": ADDED}],
    "NodeResourcesBalancedAllocation": [
        {},
        {"resources": [{"name": name} for name in ("cpu", "memory", "ephemeral-storage", "example.com/gpu")]},
    ],
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
    "NodeAffinity": {node_affinity.REASON, node_affinity.ENFORCED, node_affinity.CONFLICT},
    "NodeDeclaredFeatures": {node_declared_features.REASON},
    "NodeName": {node_name.REASON},
    "NodePorts": {node_ports.REASON},
    "NodeResourcesFit": {TOO_MANY_PODS, *map(INSUFFICIENT.format, EVERY_RESOURCE)},
    "NodeUnschedulable": {node_unschedulable.REASON},
    "TaintToleration": {taint_toleration.REASON},
    "DynamicResources": set(),
    "ImageLocality": set(),
    "NodeResourcesBalancedAllocation": set(),
    "Together": {"label together.example.com/size must be the number of pods in the group"},
}
CODES = {"FewestPods": {U}, "NodePorts": {U}, "NodeResourcesFit": {U, UU}}
#: Raw scores that a plugin must have been seen to give.
SCORES: Mapping[str, set[int]] = {
    "DynamicResources": {0},
    "FewestPods": {0, -1},
    "ImageLocality": {0, 43},
    "NodeAffinity": {0, 9},
    "NodeResourcesBalancedAllocation": {50, 75, 100},
    "NodeResourcesFit": {0, 100},
    "TaintToleration": {0, 1, 2},
}


def named(*terms: Sequence[str]) -> Affinity:
    """Make an affinity to nodes: each term asks for all of its names."""
    fields = [[{"key": "metadata.name", "operator": "In", "values": [name]} for name in names] for names in terms]
    required = {"nodeSelectorTerms": [{"matchFields": each} for each in fields]}
    return msgspec.convert({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}, Affinity)


def in_need(*, host_users: bool) -> Pod:
    """Make a pod that needs its node to declare features."""
    pod, rule = make_pod(f"in-need-{host_users}"), ContainerRestartRule(action="RestartAllContainers")
    restarting = msgspec.structs.replace(make_container(), restart_policy_rules=(rule,))
    spec = msgspec.structs.replace(pod.spec, containers=(restarting,), host_network=True, host_users=host_users)
    return msgspec.structs.replace(pod, spec=spec)


def declaring(name: str, *features: str) -> Node:
    """Make a node that declares features."""
    node = make_node(name)
    return msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, declared_features=features))


#: Pods and nodes that a plugin is about and that no random ones are like.
PODS: Mapping[str, list[Pod]] = {
    "ImageLocality": [make_pod("mounting", volumes=[Volume(image=ImageSource(reference="registry/db"))])],
    "NodeAffinity": [
        make_pod("pinned", affinity=named(["n1"])),
        make_pod("pinned-to-two", affinity=named(["n1"], ["n2"])),
        make_pod("torn", affinity=named(["n1", "n2"])),
    ],
    "NodeDeclaredFeatures": [in_need(host_users=True), in_need(host_users=False)],
    "NodeResourcesBalancedAllocation": [make_pod("modest", cpu=None, memory=None)],
    "Together": [make_pod("half", labels={"together.example.com/group": "g"})],
}
NODES: Mapping[str, list[Node]] = {
    "NodeAffinity": [make_node("n1"), make_node("n2")],
    "NodeDeclaredFeatures": [
        declaring("old"),
        declaring("new", "RestartAllContainersOnContainerExits"),
        declaring("newest", "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"),
    ],
}
#: What no answer comes by: a hook whose plugin is always skipped, and what is done when a pod does not parse.
UNREACHED = {"DynamicResources": {"filter"}, "NodeAffinity": {"NodeAffinity.pre_score"}}

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
        nodes, pods = NODES.get(name, ()), PODS.get(name, ())
        found = check_plugin(plugins()[name], args=args, nodes=nodes, pods=pods, examples=1, seed=seed)
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
    assert min(found.reasons.values(), default=LEAST) >= LEAST, found.reasons
    assert found.codes.keys() == (CODES.get(name, {UU}) if REASONS[name] else set())
    assert min(found.codes.values(), default=LEAST) >= LEAST
    asks_nodes = bool(hooks_of(plugins()[name]).keys() & {"filter", "filter_nodes"} - UNREACHED.get(name, set()))
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
            check_plugin(plugin, args=args, nodes=NODES.get(name, ()), pods=PODS.get(name, ()), examples=LEAST)
    unreached = UNREACHED.get(name, set())
    assert [line for line in lines.missed(LEAST) if line.split(",")[0] not in unreached] == []
    assert {hook for hook in PLACEMENT if _code(plugin, hook) not in {*lines.entered, None}} <= unreached


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
