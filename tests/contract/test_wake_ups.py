"""Every hint is needed, and one that lost a wake-up would be found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest

from kframework import ActionType, ClusterEvent, Plugin, QueueingHint, hookimpl
from kframework.framework.events import EventResource, ObservedEvent
from kframework.framework.hookspecs import EnqueueExtensions
from kframework.state.cluster import ClusterState
from kframework.testing import LostWakeUp, WakeUps, check_wake_ups
from kframework.testing.single_plugin import build_profile
from tests.contract.case import World
from tests.contract.cases import CASES
from tests.contract.plugins import holding
from tests.support.scale import EXAMPLES, sampled

#: The plugin, the resource, the action, and whether the registration has a hint.
Registration = tuple[str, str, ActionType, bool]

#: A planted fault is found in so many clusters of each world at the latest.
PATIENCE = 200
#: The clusters of each world that are tried before the answers are looked at.
BATCH = 10

HOLDING = holding()
#: The kinds of events of those who register Pod.
POD_KINDS = (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULED_POD, EventResource.TARGET_POD)

#: Registrations that need not be shown to be needed, most because no course of events could show it.
UNNEEDED: Mapping[tuple[str, str, ActionType], str] = {
    ("DefaultPreemption", "AssignedPod", ActionType.DELETE): "it holds pods while a preemption of theirs is under way",
    ("NodeDeclaredFeatures", "Pod", ActionType.UPDATE): "what a pod needs does not change while it waits",
    ("NodeName", "Node", ActionType.ADD): "a pod that names its node is on it, and never waits",
    ("NodeVolumeLimits", "PersistentVolume", ActionType.ADD): "a volume is of the driver of its claim's class",
    ("NodeVolumeLimits", "PersistentVolume", ActionType.UPDATE): "a volume keeps its driver",
    ("NodeVolumeLimits", "PersistentVolumeClaim", ActionType.UPDATE): "a claim's class and volume are of one driver",
    ("PodTopologySpread", "replicasets.v1.apps", ActionType.UPDATE): "its selector never changes",
    **{
        ("PodTopologySpread", kind, action): "what it selects counts as with a ReplicaSet"
        for kind in ("replicationcontrollers.v1.", "statefulsets.v1.apps")
        for action in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
    },
    ("NodeVolumeLimits", "storage.k8s.io/CSINode", ActionType.ADD): "a node without one has no limits",
    (
        "Quota",
        "Pod",
        ActionType.DELETE,
    ): "what was reserved comes free when a binding fails, which none does here",
    ("DynamicResources", "AssignedPod", ActionType.DELETE): "so do devices",
    (
        "NodeResourceTopologyMatch",
        "noderesourcetopologies.v1alpha2.topology.node.k8s.io",
        ActionType.ADD,
    ): "a node without a report takes any pod",
    ("NodeResourceTopologyMatch", "Node", ActionType.UPDATE_NODE_ALLOCATABLE): "no device comes to a node here",
}
#: Hints that skip what rarely happens: gates of a pod on a node, the deletion of one that holds nothing, and the like.
UNSKIPPING = {
    ("DynamicResources", "resource.k8s.io/DeviceTaintRule", ActionType.DELETE),
    # Only the users of a claim are asked.
    ("DynamicResources", "resource.k8s.io/ResourceClaim", ActionType.ADD),
    ("DynamicResources", "resource.k8s.io/ResourceClaim", ActionType.DELETE),
    ("NodeDeclaredFeatures", "Node", ActionType.ADD),
    ("NodeDeclaredFeatures", "Node", ActionType.UPDATE_NODE_DECLARED_FEATURE),
    ("NodeResourceTopologyMatch", "noderesourcetopologies.v1alpha2.topology.node.k8s.io", ActionType.DELETE),
    ("NodeResourcesFit", "Pod", ActionType.DELETE),
    ("SchedulingGates", "Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
    # These skip some updates only.
    ("VolumeBinding", "storage.k8s.io/CSINode", ActionType.ADD),
    ("VolumeBinding", "storage.k8s.io/CSIStorageCapacity", ActionType.ADD),
    ("VolumeBinding", "storage.k8s.io/StorageClass", ActionType.ADD),
    ("VolumeZone", "PersistentVolume", ActionType.ADD),
}


def check(
    plugin: type[Plugin], world: World, examples: int, *, other_plugins: Sequence[str] = (), seed: int = 0
) -> WakeUps:
    return check_wake_ups(
        plugin,
        args=world.args,
        other_plugins=[*world.other_plugins, *other_plugins],
        nodes=world.nodes,
        pods=world.pods,
        objects=world.objects,
        sources=world.sources,
        minors=world.minors,
        feature_gates=world.feature_gates,
        examples=examples,
        seed=seed,
    )


def waking(name: str) -> Sequence[World]:
    """List the worlds in which each registration of a plugin is needed."""
    return CASES[name].waking or CASES[name].worlds


def count_answers(name: str) -> WakeUps:
    """Check a plugin in all its worlds until there was each answer that must occur, and add up the answers."""
    total, case = WakeUps(), CASES[name]
    own = [each for each in REGISTERED if each[0] == name]
    for seed in range(PATIENCE):
        for world in [*case.worlds, *case.waking]:
            one = check(HOLDING[name], world, BATCH, seed=seed)
            total.queue.update(one.queue)
            total.skip.update(one.skip)
        if all(has_answer(total.queue, each) and has_answer(total.skip, each) >= lets_sleep(each) for each in own):
            break
    return total


def has_answer(answers: Counter[str], registration: Registration) -> bool:
    """Return whether there was such an answer to an event of a registration; any update is one to `UPDATE`."""
    name, resource, action, _ = registration
    kinds = POD_KINDS if resource == EventResource.POD else (resource,)
    labels = tuple(f"{name} {ObservedEvent(kind, action).label}" for kind in kinds)
    if action == ActionType.UPDATE:
        return any(answer.startswith(labels) for answer in answers)
    return any(label in answers for label in labels)


def lets_sleep(registration: Registration) -> bool:
    """Return whether the hint of a registration must skip some events."""
    return registration[3] and registration[:3] not in UNSKIPPING


def registrations() -> Iterator[Registration]:
    """List what the plugins registered, action by action, and whether with a hint."""
    for name, plugin in HOLDING.items():
        made = build_profile(plugin, waking(name)[-1].args, ClusterState()).plugins[name]
        assert isinstance(made, EnqueueExtensions), f"{name}: say in events_to_register what can cure it"
        for event in made.events_to_register():
            yield from ((name, event.resource, action, event.hint is not None) for action in actions(event.action))


def actions(registered: ActionType) -> Iterator[ActionType]:
    """Take the actions apart; any update at all is one."""
    if registered & ActionType.UPDATE == ActionType.UPDATE:
        yield ActionType.UPDATE
        registered &= ~ActionType.UPDATE
    yield from registered


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


@pytest.mark.slow
def test_no_wake_up_is_lost_between_plugins() -> None:
    built_in = [name for name, plugin in HOLDING.items() if plugin.__module__.startswith("kframework.plugins.")]
    together = check(HOLDING["NodePorts"], waking("NodePorts")[0], EXAMPLES, other_plugins=built_in)
    assert together.woken > 100
    assert len({answer.split()[0] for answer in together.queue}) >= 6


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", sampled(HOLDING, 6))
def test_every_event_wakes_pods_and_every_hint_skips_some(name: str) -> None:
    answers = count_answers(name)
    for each in (each for each in REGISTERED if each[0] == name):
        label = ObservedEvent(each[1], each[2]).label
        assert has_answer(answers.queue, each), f"no {label} wakes pods"
        assert has_answer(answers.skip, each) >= lets_sleep(each), f"{label} lets no pod sleep"


@pytest.mark.long
@pytest.mark.parametrize(("name", "resource", "action", "hinted"), REGISTERED)
def test_hint_that_skips_too_much_is_reported(name: str, resource: str, action: ActionType, hinted: bool) -> None:
    lossy = made_lossy(HOLDING[name], resource, action)
    # A pod that slept through the event may be found when another one makes room for it.
    with pytest.raises(LostWakeUp, match=f"the hint of {name} answered Skip to |{name} registered no such event"):
        for seed in range(PATIENCE):
            for world in waking(name):
                check(lossy, world, examples=1, seed=seed)


def test_unproven_registrations_exist() -> None:
    assert {each[:3] for each in registrations()} > UNNEEDED.keys() | UNSKIPPING
