"""A plugin that registers for every cure of its rejections passes; for one that misses some, the test fails."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    Code,
    ConfigError,
    EventResource,
    Plugin,
    QueueingHint,
    Status,
    Wait,
    hookimpl,
    unschedulable,
)
from kframework.objects import (
    ApiObject,
    Namespace,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Service,
    StorageClass,
)
from kframework.plugins.node_resources_fit.plugin import NodeResourcesFit
from kframework.plugins.taint_toleration import TaintToleration
from kframework.testing import LostWakeUp, WakeUps, check_wake_ups, make_node

# The plugins are written as briefly as a newcomer would.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return"

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


class Odd(Plugin):
    """Let only an odd number of pods onto a node: woken by all that changes their number."""

    name = "Odd"
    reads = "pods"
    events: tuple[ClusterEvent, ...] = (
        ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD | ActionType.DELETE),
        ClusterEvent(EventResource.NODE, ActionType.ADD),
    )

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("even") if len(node.pods) % 2 else None

    @hookimpl
    def events_to_register(self):
        return list(self.events)


def test_hint_answers_are_counted() -> None:
    result = check_wake_ups(Odd)
    assert result.queue.keys() >= {"Odd AssignedPodAdd", "Odd AssignedPodDelete", "Odd NodeAdd"}
    assert not result.skip
    assert result.woken > 100
    assert result.needless_share == result.unschedulable / result.woken


def test_same_seed_makes_the_same_calls() -> None:
    def result(seed: int) -> WakeUps:
        return check_wake_ups(Odd, examples=3, seed=seed)

    assert result(1) == result(1) != result(2)


def test_needless_share_is_zero_without_woken_pods() -> None:
    assert WakeUps().needless_share == 0.0


def test_missing_registration_is_reported() -> None:
    class Forgetful(Odd):
        events = Odd.events[1:]

    with pytest.raises(LostWakeUp) as lost:
        check_wake_ups(Forgetful, seed=7)
    assert re.fullmatch(r"after Pod \S+ .*: pod \S+, rejected by Odd", lost.value.call)
    text = r"still waits though it could go to node \S+: Odd registered no such event"
    assert re.fullmatch(text, lost.value.result)
    assert "events_to_register" in lost.value.remedy
    assert re.fullmatch(r"example \d+ of seed 7, 1\.3[67]", lost.value.when)


def test_wrong_hint_is_named() -> None:
    class Lossy(Odd):
        @hookimpl
        def events_to_register(self):
            return [ClusterEvent("Pod", ActionType.ALL, lambda pod, old, new: SKIP if new is None else QUEUE)]

    with pytest.raises(LostWakeUp, match=r"the hint of Odd answered Skip to AssignedPodDelete\n"):
        check_wake_ups(Lossy)


@pytest.mark.slow
def test_plugin_without_registrations_is_woken_by_most_events() -> None:
    class Everything(Plugin):
        name = "Odd"
        filter = Odd.filter

    assert check_wake_ups(Everything).needless_share > 2 * check_wake_ups(Odd).needless_share


def needing(kind: type[ApiObject], name: str, *events: ClusterEvent) -> type[Plugin]:
    """Make a plugin that lets pods in as long as there is an object with the label `team: a`."""

    class Needing(Plugin):
        @hookimpl
        def filter(self, state, pod, node):
            result = [each for each in self.handle.objects(kind) if each.metadata.name == name]
            return None if result and result[0].metadata.labels.get("team") == "a" else unschedulable("not yet")

        @hookimpl
        def events_to_register(self):
            return list(events)

    Needing.name = "Needing"
    return Needing


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "name", "resource"),
    [
        (Namespace, "default", EventResource.NAMESPACE),
        (Service, "web", EventResource.SERVICE),
        (PersistentVolume, "disk", EventResource.PERSISTENT_VOLUME),
        (PersistentVolumeClaim, "data", EventResource.PERSISTENT_VOLUME_CLAIM),
        (StorageClass, "fast", EventResource.STORAGE_CLASS),
        (StorageClass, "given", EventResource.STORAGE_CLASS),
    ],
)
def test_events_of_other_kinds_occur(kind: type[ApiObject], name: str, resource: str) -> None:
    given = [StorageClass(metadata=ObjectMeta(name="given"))]
    added, updated = (ClusterEvent(resource, action) for action in (ActionType.ADD, ActionType.UPDATE))
    check_wake_ups(needing(kind, name, added, updated), objects=given)
    for events in [(), (added,), (updated,)]:
        with pytest.raises(LostWakeUp, match="Needing registered no such event"):
            check_wake_ups(needing(kind, name, *events), objects=given, examples=200)


class Gate(Plugin):
    """Hold the pods back that have no label."""

    name = "Gate"

    @hookimpl
    def pre_enqueue(self, pod):
        return None if pod.labels else unschedulable("no label")

    @hookimpl
    def events_to_register(self):
        return [ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL, self.hint)]

    def hint(self, pod, old, new):
        return QUEUE


def test_gated_pods_are_checked_too() -> None:
    class Lossy(Gate):
        def hint(self, pod, old, new):
            return SKIP

    assert check_wake_ups(Gate).woken
    text = r"held by Gate\n.* could pass PreEnqueue: the hint of Gate answered Skip to TargetPodUpdatePodLabel\n"
    with pytest.raises(LostWakeUp, match=text):
        check_wake_ups(Lossy)


def refusing(point: str, answer: Callable[[], object]) -> type[Plugin]:
    """Make a plugin that refuses every pod at a point and registers nothing."""

    class Refusing(Plugin):
        @hookimpl
        def events_to_register(self):
            return []

    def refuse(self, state, pod, node_name):
        return answer()

    setattr(Refusing, point, hookimpl(refuse))
    Refusing.name = "Refusing"
    return Refusing


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        ("reserve", lambda: unschedulable("no")),
        ("permit", lambda: unschedulable("no")),
        ("permit", lambda: Status(Code.PENDING, ("not yet",))),
        ("permit", lambda: Wait(60)),
    ],
)
def test_pods_rejected_at_reserve_or_permit_are_not_checked(point: str, answer: Callable[[], object]) -> None:
    assert check_wake_ups(refusing(point, answer), examples=3).woken == 0


class Turns(Plugin):
    """One pod to a node; and each waits for the next one, which lets it pass or sends it back."""

    name = "Turns"

    @hookimpl
    def filter(self, state, pod, node):
        return unschedulable("taken") if node.pods else None

    @hookimpl
    def permit(self, state, pod, node_name):
        for waiting in self.handle.waiting_pods():
            if waiting.pod.labels:
                waiting.allow(self.name)
            else:
                waiting.reject(self.name, "no label")
        return Wait(60)

    @hookimpl
    def events_to_register(self):
        return [ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ALL), ClusterEvent("Node", ActionType.ADD)]


def test_waiting_pods_are_allowed_or_rejected() -> None:
    assert check_wake_ups(Turns).queue.keys() >= {"Turns AssignedPodAdd", "Turns AssignedPodDelete"}


def test_args_are_spelled_as_in_the_file() -> None:
    check_wake_ups(NodeResourcesFit, args={"ignoredResources": ["example.com/gpu"]}, examples=1)
    with pytest.raises(ConfigError, match="ignoredResource"):
        check_wake_ups(NodeResourcesFit, args={"ignoredResource": []}, examples=1)


def test_other_plugins_may_be_enabled() -> None:
    tainted = make_node("tainted", taints=["dedicated=a:NoSchedule"])
    result = check_wake_ups(Odd, other_plugins=["TaintToleration", "SchedulingGates"], nodes=[tainted])
    assert {answer.split()[0] for answer in result.queue} == {"Odd", "TaintToleration", "SchedulingGates"}
    assert not [answer for answer in check_wake_ups(TaintToleration).queue if answer.startswith("Odd")]
