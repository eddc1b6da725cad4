"""What the cluster says becomes state, and events for the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest
from msgspec.structs import replace

from kframework.clock import VIRTUAL_EPOCH
from kframework.core.event_handlers import EventHandlers
from kframework.core.queue.backoff import Backoff
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.runtime.profiles import Profiles
from kframework.framework.events import ActionType, ClusterEvent, EventResource, ObservedEvent
from kframework.framework.plugin import Plugin, Watch, hookimpl
from kframework.objects import (
    ApiObject,
    ContainerStatus,
    Namespace,
    ObjectMeta,
    Pod,
    PodCondition,
    PodResourceClaimStatus,
    PodSchedulingGroup,
    PodStatus,
    StorageClass,
)
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, PodInfo, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.testing import Scenario, delete, make_node, make_pod
from kframework.values.feature_gates import LATEST_MINOR, MINORS, FeatureGates
from kframework.values.status import Status, unschedulable
from tests.extension_points.scripted import plugin, profile

NODE = make_node("a")
POD = make_pod("p", labels={"app": "web"})
ON_NODE = make_pod("q", node_name="a")

#: Rejects nothing, but registers everything.
LISTENING = plugin("Listening", filter=None, events=None)


def moved(pod: Pod, **changes: object) -> Pod:
    """Return the next version of a pod."""
    version = str(int(pod.metadata.resource_version or 0) + 1)
    changed = {name: value for name, value in changes.items() if name != "node"}
    metadata = replace(pod.metadata, resource_version=version, **changed)
    spec = replace(pod.spec, node_name=str(changes["node"])) if "node" in changes else pod.spec
    return replace(pod, metadata=metadata, spec=spec)


def nominated(pod: Pod, node: str) -> Pod:
    return replace(moved(pod), status=replace(pod.status, nominated_node_name=node))


class Watching(SchedulingQueue):
    """A queue that records its events, and to which of three priorities."""

    def __init__(self, profiles: Profiles) -> None:
        super().__init__(profiles, lambda: VIRTUAL_EPOCH, Backoff())
        self.told: list[str] = []
        #: The nodes to which the pods of these events were nominated.
        self.nominated_to: list[str] = []

    @property
    def has_waiting_pods(self) -> bool:
        return True  # it receives all events

    def move_on_event(self, event: ObservedEvent, only: Callable[[PendingPod], bool] | None = None) -> None:
        others = [PendingPod(make_pod(f"x{n}", priority=n), ClusterState().interner) for n in (0, 5, 9)]
        to = "" if only is None else f" to {[other.priority for other in others if only(other)]}"
        self.told.append(event.label + to)
        if isinstance(event.old, PodInfo):
            self.nominated_to.append(event.old.nominated_node_name)
        super().move_on_event(event, only)


class Stage:
    """Handlers over tables and a queue of one profile."""

    def __init__(self, *plugins: type[Plugin], minor: str = LATEST_MINOR) -> None:
        self.cluster = ClusterState(FeatureGates(minor))
        profiles = Profiles({"default-scheduler": profile(LISTENING, *plugins)})
        self.queue = Watching(profiles)
        self.handlers = EventHandlers(self.cluster, self.queue, profiles)
        self.handlers.mark_synced()

    def assume(self, pod: Pod, *, waiting: bool) -> ReservedPod:
        """Take a pod out of the queue and put it on the node."""
        queued = self.queue.pop()
        assert queued is not None and queued.pod.uid == pod.metadata.uid
        self.cluster.assume(queued.pod, "a")
        reserved = ReservedPod(queued.pod, "a", {"P": VIRTUAL_EPOCH + 9} if waiting else {}, VIRTUAL_EPOCH)
        self.cluster.waiting.add(reserved)
        return reserved


class Gatekeeper(Plugin):
    """Hold pods back until the gate is open."""

    name = "Gatekeeper"
    is_open: ClassVar[bool] = False
    asked: ClassVar[int] = 0

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        Gatekeeper.asked += 1
        return None if self.is_open else unschedulable("closed")

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        return [ClusterEvent(EventResource.NODE, ActionType.ADD)]


def test_no_event_requeues_a_pod_before_the_initial_lists_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(Gatekeeper)
    stage.handlers = EventHandlers(stage.cluster, stage.queue, stage.handlers.profiles)
    monkeypatch.setattr(Gatekeeper, "asked", 0)
    stage.handlers.upsert(POD)
    monkeypatch.setattr(Gatekeeper, "is_open", True)
    for number in range(9):
        stage.handlers.upsert(make_node(f"n{number}"))
    assert (Gatekeeper.asked, stage.queue.told, stage.queue.count_by_queue()["gated"]) == (1, [], 1)
    stage.handlers.mark_synced()
    assert (Gatekeeper.asked, stage.queue.count_by_queue()["active"]) == (2, 1)


def test_events_that_no_pod_waits_for_are_not_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    monkeypatch.setattr(Watching, "has_waiting_pods", False)
    stage.handlers.upsert(NODE)
    assert stage.queue.told == []


class ByRank(Plugin):
    """Sort pods by their namespaces, which the initial lists bring after the pods."""

    name = "ByRank"
    watches = (Watch(Namespace),)

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> str:
        namespace = self.handle.objects(Namespace).get(queued.pod.namespace)
        return "" if namespace is None else namespace.metadata.labels.get("rank", "")


def test_pods_of_the_initial_lists_are_sorted_by_all_that_these_bring() -> None:
    pods = [make_pod("a", namespace="second"), make_pod("b", namespace="first")]
    ranks = {"second": "2", "first": "1"}
    namespaces = [Namespace(metadata=ObjectMeta(name=name, labels={"rank": rank})) for name, rank in ranks.items()]
    result = Scenario(nodes=[NODE], pods=pods, objects=namespaces, plugins=[ByRank]).run()
    assert [decision.pod for decision in result.decisions] == ["first/b", "second/a"]


Deleted = tuple[str, ApiObject]

#: The first is for pods that a nomination kept off a node, the second for plugins that look at nominations themselves.
NOMINATION_ENDS = ["AssignedPodDelete to [0]", "NominatedPodDelete"]


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([NODE], ["NodeAdd"]),
        ([NODE, NODE], []),
        ([NODE, replace(NODE, spec=replace(NODE.spec, unschedulable=True))], []),
        ([make_node("a", unschedulable=True), NODE], ["NodeUpdateNodeTaint"]),
        (
            [NODE, make_node("a", cpu=9, labels={"x": "y"}, taints=["t:NoSchedule"])],
            ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
        ),
        (
            [make_node("a", unschedulable=True), make_node("a", taints=["t:NoSchedule"])],
            ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
        ),
        ([NODE, ("gone", NODE)], ["NodeDelete"]),
        ([POD], []),
        ([ON_NODE], ["AssignedPodAdd"]),
        ([ON_NODE, moved(ON_NODE, labels={"x": "y"})], ["AssignedPodUpdatePodLabel"]),
        ([ON_NODE, moved(ON_NODE, annotations={"x": "y"})], ["AssignedPodUpdate"]),
        ([ON_NODE, ("gone", ON_NODE)], ["AssignedPodDelete"]),
        ([POD, moved(POD, node="a")], ["AssignedPodAdd"]),
        ([POD, ("gone", POD)], []),
        ([nominated(POD, "a"), ("gone", POD)], NOMINATION_ENDS),
        ([POD, nominated(POD, "a")], []),
        ([nominated(POD, "a"), nominated(moved(POD), "b")], NOMINATION_ENDS),
        ([nominated(POD, "a"), nominated(moved(POD), "")], NOMINATION_ENDS),
        ([StorageClass(metadata=ObjectMeta(name="s"))], ["storage.k8s.io/StorageClassAdd"]),
        (
            [StorageClass(metadata=ObjectMeta(name="s")), StorageClass(metadata=ObjectMeta(name="s"), provisioner="x")],
            ["storage.k8s.io/StorageClassUpdate"],
        ),
        (
            [StorageClass(metadata=ObjectMeta(name="s")), ("gone", StorageClass(metadata=ObjectMeta(name="s")))],
            ["storage.k8s.io/StorageClassDelete"],
        ),
        ([Namespace(metadata=ObjectMeta(name="n"))], ["NamespaceAdd"]),
    ],
)
def test_object_changes_emit_events(history: list[ApiObject | Deleted], told: list[str]) -> None:
    """Only those of the last step."""
    stage = Stage()
    for step in history:
        stage.queue.told.clear()
        if isinstance(step, tuple):
            stage.handlers.delete(step[1])
        else:
            stage.handlers.upsert(step)
    assert stage.queue.told == told


#: Asks for what happens to other pods that wait.
FOLLOWING = plugin(
    "Following",
    filter=None,
    events=[ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD | ActionType.UPDATE)],
)


@pytest.mark.parametrize(
    ("history", "told"),
    [
        ([POD], ["UnscheduledPodAdd"]),
        ([POD, moved(POD, labels={"x": "y"})], ["UnscheduledPodUpdatePodLabel"]),
        ([POD, nominated(POD, "a")], []),
    ],
    ids=["new", "changed", "status of a scheduler"],
)
def test_changes_of_waiting_pods_are_events_if_a_plugin_registers_them_by_name(
    history: list[Pod], told: list[str]
) -> None:
    stage = Stage(FOLLOWING)
    for step in history:
        stage.queue.told.clear()
        stage.handlers.upsert(step)
    assert stage.queue.told == told


def test_node_deletion_event_precedes_the_removal() -> None:
    stage = Stage()
    stage.handlers.upsert(NODE)
    seen: list[int] = []
    stage.queue.move_on_event = lambda event, only=None: seen.append(len(stage.cluster.nodes))  # type: ignore[method-assign]  # watched in passing
    stage.handlers.delete(NODE)
    assert seen == [1] and len(stage.cluster.nodes) == 0


def test_pods_of_other_schedulers_are_not_queued() -> None:
    stage = Stage()
    stage.handlers.upsert(make_pod("theirs", scheduler_name="another"))
    stage.handlers.upsert(make_pod("ours", scheduler_name=""))
    assert [queued.pod.name for queued in stage.queue] == ["ours"]


def test_unchanged_resource_version_is_ignored() -> None:
    stage = Stage()
    version = moved(POD)
    stage.handlers.upsert(version)
    pending = stage.handlers.pending[version.metadata.uid]
    stage.handlers.upsert(version)
    assert stage.handlers.pending[version.metadata.uid] is pending


def test_bound_pod_leaves_the_queue_and_loses_its_nomination() -> None:
    stage = Stage()
    stage.handlers.upsert(NODE)
    stage.handlers.upsert(nominated(POD, "a"))
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == "a"
    stage.handlers.upsert(moved(POD, node="a"))
    assert len(stage.queue) == 0 and not stage.handlers.pending
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == ""
    assert [pod.name for pod in cast("list[PodInfo]", list(stage.cluster.nodes[0].pods))] == ["p"]


@pytest.mark.parametrize(("minor", "node"), [("1.36", ""), ("1.37", "a")])
def test_gated_pod_keeps_the_room_it_is_nominated_to_since_1_37(minor: str, node: str) -> None:
    stage = Stage(Gatekeeper, minor=minor)
    stage.handlers.upsert(nominated(POD, "a"))
    assert stage.queue.count_by_queue()["gated"] == 1
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == node
    stage.handlers.upsert(nominated(moved(POD, labels={"x": "y"}), "a"))
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == "a", "an update always counts"


@pytest.mark.parametrize("minor", MINORS)
def test_pod_that_its_gates_let_in_when_the_lists_are_complete_keeps_its_room(
    minor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(Gatekeeper, minor=minor)
    stage.handlers = EventHandlers(stage.cluster, stage.queue, stage.handlers.profiles)
    stage.handlers.upsert(nominated(POD, "a"))
    monkeypatch.setattr(Gatekeeper, "is_open", True)
    stage.handlers.mark_synced()
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == "a"


@pytest.mark.parametrize(
    ("held", "update", "node"),
    [
        ("a", moved(POD), "a"),  # a nomination that only memory knows survives a stale update
        ("a", nominated(POD, "b"), "b"),
        ("", nominated(POD, "b"), "b"),
        ("", moved(POD), ""),
    ],
)
def test_nomination_in_memory_survives_updates_without_one(held: str, update: Pod, node: str) -> None:
    stage = Stage()
    stage.handlers.upsert(POD)
    stage.cluster.nominator.nominate(stage.handlers.pending[POD.metadata.uid], held)
    stage.handlers.upsert(update)
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == node


@pytest.mark.parametrize(
    ("pod", "held", "node", "told"),
    [
        (POD, "a", "b", NOMINATION_ENDS),
        (POD, "a", "", NOMINATION_ENDS),
        (POD, "a", "a", []),
        (POD, "", "a", []),
        (nominated(POD, "a"), "a", "b", []),  # the change of the pod will tell
    ],
)
def test_cleared_nomination_in_memory_requeues_other_pods(pod: Pod, held: str, node: str, told: list[str]) -> None:
    stage = Stage()
    stage.handlers.upsert(pod)
    pending = stage.handlers.pending[POD.metadata.uid]
    stage.cluster.nominator.nominate(pending, held)
    stage.queue.told.clear()
    stage.handlers.nominate(pending, node)
    assert stage.cluster.nominator.nominated_node(POD.metadata.uid) == node
    assert stage.queue.told == told


def test_pod_is_tried_again_when_the_node_it_waits_for_is_deleted() -> None:
    """Its victim cannot end on a node that is gone, and plugins that reject for lack of room wait for more of it."""
    victim = make_pod("victim", cpu=1, node_name="a")
    victim = replace(victim, spec=replace(victim.spec, termination_grace_period_seconds=500))
    nodes = [make_node("a", cpu=1), make_node("b", cpu=2)]
    waiting = make_pod("waiting", cpu=1, priority=9)
    blocker = make_pod("blocker", cpu=2, node_name="b", priority=99)
    scenario = Scenario(nodes=nodes, pods=[victim, blocker, waiting])
    result = scenario.at(10, delete(nodes[0])).run(until=100)
    attempts = result.decisions_on("waiting")
    start = attempts[0].popped_at
    assert [round(attempt.popped_at - start, 3) for attempt in attempts] == [0, 10]
    assert (attempts[0].nominated, attempts[1].nominated) == ("a", "")


def test_deleted_pod_with_nomination_in_memory_requeues_other_pods() -> None:
    stage = Stage()
    stage.handlers.upsert(POD)
    stage.cluster.nominator.nominate(stage.handlers.pending[POD.metadata.uid], "a")
    stage.handlers.delete(POD)
    assert stage.queue.told == NOMINATION_ENDS
    assert set(stage.queue.nominated_to) == {"a"}, "queueing hints look at it"


DELETING = moved(POD, deletion_timestamp="2026-01-01T00:00:00Z")


def assumed(*, waiting: bool) -> tuple[Stage, ReservedPod]:
    stage = Stage()
    stage.handlers.upsert(NODE)
    stage.handlers.upsert(POD)
    reserved = stage.assume(POD, waiting=waiting)
    stage.queue.told.clear()
    return stage, reserved


@pytest.mark.parametrize("goes", ["gone", "deleting"])
@pytest.mark.parametrize("waiting", [True, False])
def test_deleted_assumed_pod_frees_its_room(goes: str, waiting: bool) -> None:
    stage, reserved = assumed(waiting=waiting)
    stage.handlers.delete(POD) if goes == "gone" else stage.handlers.upsert(DELETING)
    assert stage.queue.told == ["AssignedPodDelete"]
    if waiting:
        assert reserved.verdict is not None and reserved.verdict.message == "removed"
        assert stage.cluster.assumed, "it is forgotten when its binding cycle ends"
    else:
        assert not stage.cluster.assumed and not stage.cluster.pods


def test_deletion_of_an_assumed_pod_emits_one_event() -> None:
    stage, _ = assumed(waiting=True)
    stage.handlers.upsert(DELETING)
    stage.handlers.upsert(moved(DELETING))
    assert stage.queue.told == ["AssignedPodDelete"]


def test_changes_of_an_assumed_pod_are_kept_for_its_return() -> None:
    stage, _ = assumed(waiting=True)
    changed = moved(POD, labels={"app": "db"})
    stage.handlers.upsert(changed)
    assert stage.queue.told == []
    assert stage.handlers.pending[POD.metadata.uid].labels == {"app": "db"}
    assert stage.cluster.assumed == {POD.metadata.uid}


def test_bound_assumed_pod_is_confirmed() -> None:
    stage, _ = assumed(waiting=False)
    stage.handlers.upsert(moved(POD, node="a"))
    assert stage.queue.told == ["AssignedPodAdd"]
    assert not stage.cluster.assumed
    assert stage.cluster.pods[POD.metadata.uid].node_name == "a"


def test_pod_bound_to_another_node_than_assumed_follows_the_api() -> None:
    stage, _ = assumed(waiting=False)
    stage.handlers.upsert(make_node("b"))
    stage.handlers.upsert(moved(POD, node="b"))
    assert {node.name: len(node.pods) for node in stage.cluster.nodes} == {"a": 0, "b": 1}


def test_objects_of_other_kinds_are_stored() -> None:
    stage = Stage()
    stage.handlers.upsert(StorageClass(metadata=ObjectMeta(name="s")))
    store = stage.cluster.objects(StorageClass)
    assert [each.metadata.name for each in store] == ["s"]
    stage.handlers.delete(StorageClass(metadata=ObjectMeta(name="s")))
    assert list(store) == []


@pytest.mark.parametrize(
    "status",
    [
        PodStatus(phase="Running"),
        PodStatus(phase="Running", start_time="2026-01-01T00:00:00Z"),
        PodStatus(nominated_node_name="b"),
        PodStatus(conditions=(PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler"),)),
        PodStatus(resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name="claim"),)),
        PodStatus(container_statuses=(ContainerStatus(name="main", allocated_resources={"cpu": "1"}),)),
    ],
)
@pytest.mark.parametrize("before", [[NODE, ON_NODE], [ON_NODE], [NODE], [NODE, nominated(ON_NODE, "c")]])
def test_status_update_equals_update_of_the_whole_pod(before: list[ApiObject], status: PodStatus) -> None:
    known = []
    for alone in (True, False):
        stage = Stage()
        for obj in before:
            stage.handlers.upsert(obj)
        stage.handlers.upsert(make_pod("listens", cpu=99))
        assert stage.queue.pop() is not None
        stage.queue.told.clear()
        take_in = stage.handlers.update_status if alone else stage.handlers.upsert
        take_in(moved(replace(ON_NODE, status=status)))
        (pod,) = stage.cluster.pods.values()
        facts = [getattr(pod, name) for name in PodInfo.__slots__ if name not in ("template", "label_class")]
        on_nodes = [[each.uid for each in node.pods] for node in stage.cluster.nodes]
        known.append((facts, on_nodes, stage.queue.told))
    assert known[0] == known[1]


def member(name: str, **fields: Any) -> Pod:
    pod = make_pod(name, **fields)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))


def test_members_of_a_group_are_known_whatever_their_scheduler() -> None:
    stage = Stage()
    own, foreign, bound = member("p"), member("q", scheduler_name="other"), member("r", node_name="a")
    for obj in (NODE, own, foreign, bound):
        stage.handlers.upsert(obj)
    members = stage.cluster.groups.members("default", "g")
    assert list(members.unscheduled) == [own.metadata.uid, foreign.metadata.uid]
    assert list(members.assigned) == [bound.metadata.uid]
    stage.assume(own, waiting=False)
    assert (list(members.assumed), members.scheduled) == ([own.metadata.uid], 2)
    for obj in (own, foreign, bound):
        stage.handlers.delete(obj)
    assert len(stage.cluster.groups) == 0


def test_deleted_member_does_not_come_back_when_its_reservation_is_undone() -> None:
    stage = Stage()
    pod = member("p")
    stage.handlers.upsert(NODE)
    stage.handlers.upsert(pod)
    stage.assume(pod, waiting=True)
    stage.handlers.delete(pod)
    stage.cluster.forget(pod.metadata.uid)
    assert len(stage.cluster.groups) == 0
