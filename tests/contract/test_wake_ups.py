"""No plugin loses a wake-up; and a hint that did would be found out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest

from kframework import ActionType, ClusterEvent, Plugin, QueueingHint, hookimpl
from kframework.events import Occurrence
from kframework.hookspecs import EnqueueExtensions
from kframework.objects import Node, Pod
from kframework.registry import Registry, points_of
from kframework.state.cluster import ClusterState
from kframework.testing import LostWakeUp, WakeUps, check_wake_ups, make_node, make_pod
from kframework.testing.alone import profile_of
from tests.contract.plugins import plugins
from tests.contract.test_plugins import ARGS, NODES, PODS

INSTALLED = Registry.installed()

#: So many clusters for each plugin and its Args.
EXAMPLES = int(os.environ.get("KFRAMEWORK_EXAMPLES", "25"))
#: A planted fault is found in so many clusters at the latest.
PATIENCE = 200

#: The plugins that hold pods back: installed or offered by an example.
HOLDING = {
    name: plugin
    for name, plugin in sorted({**{name: INSTALLED.load(name) for name in INSTALLED}, **plugins()}.items())
    if points_of(plugin) & {"pre_enqueue", "pre_filter", "filter", "reserve", "permit"}
}
#: Args that change what a plugin waits for, beside those of the contract.
MORE_ARGS: Mapping[str, list[dict[str, Any]]] = {"FewestPods": [{"maxPodsPerNode": 1}]}
#: Pods that a plugin keeps waiting.
HELD: Mapping[str, list[Pod]] = {
    "NodePorts": [make_pod("port-8080", host_ports=[8080]), make_pod("ports", host_ports=[80, 8080])],
    "NodeUnschedulable": [make_pod("plain"), make_pod("tolerant", tolerations=["node.kubernetes.io/unschedulable"])],
    "TaintToleration": [make_pod("plain"), make_pod("tolerant", tolerations=["dedicated"])],
}
#: Nodes that keep them out.
KEEPING: Mapping[str, list[Node]] = {
    "NodeUnschedulable": [make_node(name, unschedulable=True) for name in "ab"],
    "TaintToleration": [make_node(name, taints=["dedicated=a:NoSchedule"]) for name in "ab"],
}
#: Registrations that no course of events can show to be needed.
UNNEEDED = {
    ("NodeName", "Node", ActionType.ADD): "a pod that names its node is on it, and never waits",
    ("NodeDeclaredFeatures", "Pod", ActionType.UPDATE): "what a pod needs does not change while it waits",
}


#: Hints that skip what does not happen: gates of a pod on a node, the deletion of one that holds nothing, and the like.
UNSKIPPING = {
    ("NodeDeclaredFeatures", "Node", ActionType.ADD),
    ("NodeDeclaredFeatures", "Node", ActionType.UPDATE_NODE_DECLARED_FEATURE),
    ("NodeResourcesFit", "Pod", ActionType.DELETE),
    ("SchedulingGates", "Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
}


def check(
    name: str, plugin: type[Plugin], args: Mapping[str, Any], examples: int, beside: Sequence[str] = ()
) -> WakeUps:
    nodes, pods = [*NODES.get(name, ()), *KEEPING.get(name, ())], [*PODS.get(name, ()), *HELD.get(name, ())]
    return check_wake_ups(plugin, args=args, beside=beside, nodes=nodes, pods=pods, examples=examples)


@cache
def found(name: str) -> WakeUps:
    """Check a plugin with all its Args, and add up what was come by."""
    total = WakeUps()
    for args in [*ARGS.get(name, [{}]), *MORE_ARGS.get(name, [])]:
        one = check(name, HOLDING[name], args, EXAMPLES)
        total.queue.update(one.queue)
        total.skip.update(one.skip)
        total.woken += one.woken
        total.in_vain += one.in_vain
    return total


def registrations() -> Iterator[tuple[str, str, ActionType, bool]]:
    """List what the plugins registered, action by action, and whether with a hint."""
    for name, plugin in HOLDING.items():
        made = profile_of(plugin, {}, ClusterState()).plugins[name]
        assert isinstance(made, EnqueueExtensions), f"{name}: say in events_to_register what can cure it"
        for event in made.events_to_register():
            actions = list(event.action) if event.action < ActionType.UPDATE else [event.action]
            yield from ((name, event.resource, action, event.hint is not None) for action in actions)


REGISTERED = [each for each in registrations() if each[:3] not in UNNEEDED]


def made_lossy(plugin: type[Plugin], resource: str, action: ActionType) -> type[Plugin]:
    """Return the plugin, with a hint that skips whenever this happens."""

    class Lossy(plugin):  # type: ignore[misc, valid-type]  # mypy wants to know the class
        name = plugin.name

        @hookimpl
        def events_to_register(self) -> list[ClusterEvent]:
            sound = [
                msgspec.structs.replace(event, action=event.action & ~action) if event.resource == resource else event
                for event in super().events_to_register()
            ]
            return [*sound, ClusterEvent(resource, action, lambda pod, old, new: QueueingHint.SKIP)]

    return Lossy


@pytest.mark.parametrize("name", HOLDING)
def test_no_wake_up_is_lost(name: str) -> None:
    found(name)


def test_no_wake_up_is_lost_between_plugins() -> None:
    built_in = [name for name, plugin in HOLDING.items() if plugin.__module__.startswith("kframework.plugins.")]
    together = check("NodePorts", HOLDING["NodePorts"], {}, EXAMPLES, beside=built_in)
    assert together.woken > 100
    assert len({answer.split()[0] for answer in together.queue}) >= 6


@pytest.mark.parametrize(("name", "resource", "action", "hinted"), REGISTERED)
def test_every_event_wakes_pods_and_every_hint_lets_some_sleep(
    name: str, resource: str, action: ActionType, hinted: bool
) -> None:
    happened = Occurrence(resource, action).label.removeprefix("Pod")
    assert [label for label in found(name).queue if label.endswith(happened)]
    skips = hinted and (name, resource, action) not in UNSKIPPING
    assert bool([label for label in found(name).skip if label.endswith(happened)]) is skips


@pytest.mark.parametrize(("name", "resource", "action", "hinted"), REGISTERED)
def test_a_hint_that_skips_too_much_is_found_out(name: str, resource: str, action: ActionType, hinted: bool) -> None:
    args = [*MORE_ARGS.get(name, []), {}][0]
    with pytest.raises(LostWakeUp, match=f"the hint of {name} said Skip to "):
        check(name, made_lossy(HOLDING[name], resource, action), args, PATIENCE)


def test_registrations_that_need_not_be_shown_are_there() -> None:
    assert {each[:3] for each in registrations()} > UNNEEDED.keys()
