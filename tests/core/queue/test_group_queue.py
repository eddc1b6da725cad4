"""PodGroups wait, are popped and are put back with all their pods: the rows of 1.37's queue of entities."""

from __future__ import annotations

from collections.abc import Hashable

from kframework.core.queue.backoff import Backoff
from kframework.core.queue.group_queue import GroupQueue
from kframework.core.queue.queued_group import GATES_PER_TURN, QueuedGroup
from kframework.objects import GenericPodGroup
from kframework.state.group_trees import GroupTrees, entity_key
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from kframework.values.status import Code, Status
from tests.core.queue.rig import NODE_ADD, START, Rig
from tests.support.groups import below, gang, members, tree

SUCCESS, REJECTED, ERROR = Status(Code.SUCCESS), Status(Code.UNSCHEDULABLE, ("no",)), Status(Code.ERROR, ("broken",))


def by_priority(queued: QueuedPod) -> Hashable:
    return -queued.priority, queued.timestamp


class GroupRig:
    """A queue of groups on a clock, with the tables of the rig of pods."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.time = START
        self.trees = GroupTrees(has_parents=True)
        self.queue = GroupQueue(self.rig, lambda: self.time, Backoff(), self.trees)
        self.interner = TemplateInterner()

    def change(self, old: GenericPodGroup | None, new: GenericPodGroup | None) -> None:
        self.trees.apply(old, new)
        self.queue.on_group_change(old, new)

    def put(self, group: GenericPodGroup) -> None:
        self.change(self.trees.get(entity_key(group)), group)

    def add(self, group: str = "g", *numbers: int, priority: int = 0) -> list[PendingPod]:
        pods = members(group, max(numbers) + 1, priority=priority)
        pending = [PendingPod(pods[number], self.interner) for number in numbers]
        for pod in pending:
            self.queue.add(pod)
        return pending

    def pop(self) -> QueuedGroup:
        queued = self.queue.pop()
        assert isinstance(queued, QueuedGroup)
        return queued

    def finish(self, queued: QueuedGroup, status: Status, *failed: str, plugin: str = "Fit") -> None:
        """Hand the failed members back, then the group."""
        for member in queued.in_order():
            if member.pod.name in failed:
                member.unschedulable_plugins = frozenset() if status is ERROR else frozenset((plugin,))
                self.queue.put_back(member)
        self.queue.put_back_group(queued, status)


def names(queued: QueuedGroup) -> list[str]:
    return [pod.name for pod in queued.pods]


def rig_with(*numbers: int, minimum: int = 2) -> GroupRig:
    rig = GroupRig()
    rig.put(gang("g", minimum))
    rig.add("g", *numbers)
    return rig


def test_pods_whose_group_is_unknown_are_incomplete() -> None:
    rig = GroupRig()
    rig.add("g", 0, 1)
    assert rig.queue.count_by_queue() | {"incomplete": 2, "active": 0} == rig.queue.count_by_queue()
    assert rig.queue.pop() is None
    rig.put(gang("g", 2))
    assert names(rig.pop()) == ["g-0", "g-1"]


def test_group_is_popped_with_all_its_pods() -> None:
    rig = rig_with(0, 1, 2)
    assert rig.queue.count_by_queue()["active"] == 3
    queued = rig.pop()
    assert names(queued) == ["g-0", "g-1", "g-2"] and queued.attempts == 1
    assert [member.attempts for member in queued.in_order()] == [1, 1, 1]
    assert rig.queue.pop() is None


def test_pod_that_comes_during_the_cycle_of_its_group_is_pending() -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    (late,) = rig.add("g", 2)
    assert rig.queue.queue_of(late.uid) == "pending" and rig.queue.count_by_queue()["pending"] == 1
    rig.finish(queued, SUCCESS)
    assert names(rig.pop()) == ["g-2"]


def test_event_during_the_cycle_of_a_group_is_not_lost() -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    rig.queue.move_on_event(NODE_ADD)
    rig.finish(queued, REJECTED, "g-0", "g-1")
    assert rig.queue.count_by_queue()["backoff"] == 2


def test_gate_of_one_pod_holds_the_group_back() -> None:
    rig = GroupRig()
    rig.rig.gates["g-1"] = "Fit"
    rig.put(gang("g", 2))
    rig.add("g", 0, 1)
    assert rig.queue.count_by_queue()["gated"] == 2
    rig.rig.gates.clear()
    rig.queue.move_on_event(NODE_ADD)
    assert names(rig.pop()) == ["g-0", "g-1"]


def test_group_deleted_during_its_cycle_leaves_incomplete_pods() -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    rig.change(gang("g", 2), None)
    rig.finish(queued, REJECTED, "g-0", "g-1")
    assert rig.queue.count_by_queue()["incomplete"] == 2


def test_activated_pod_activates_its_group() -> None:
    rig = rig_with(0, 1)
    rig.finish(rig.pop(), REJECTED, "g-0", "g-1")
    rig.queue.activate(next(rig.queue.pods_in("unschedulable")).pod.uid)
    assert rig.queue.count_by_queue()["active"] == 2


def test_pods_that_a_plugin_holds_back_are_counted_one_by_one() -> None:
    rig = rig_with(0, 1)
    rig.finish(rig.pop(), REJECTED, "g-0", "g-1")
    assert rig.queue.count_by_plugin() == {("default-scheduler", "Fit"): 2}


def test_member_whose_binding_failed_backs_off_longer_each_time() -> None:
    rig = rig_with(0)
    waits = []
    for _ in range(3):
        queued = rig.pop()
        rig.queue.put_back_group(queued, SUCCESS)
        (member,) = queued.in_order()
        rig.queue.put_back(member)
        assert rig.queue.queue_of(member.pod.uid) == "backoff" and rig.queue.pop() is None
        deadline = rig.queue.retry_deadline
        assert deadline is not None
        waits.append(deadline - rig.time)
        rig.time = deadline
        rig.queue.tick()
    assert waits[0] < waits[1] < waits[2]


def test_member_whose_binding_a_plugin_rejected_waits_for_its_events() -> None:
    rig = rig_with(0)
    queued = rig.pop()
    rig.queue.put_back_group(queued, SUCCESS)
    (member,) = queued.in_order()
    member.unschedulable_plugins = frozenset({"Fit"})
    rig.queue.put_back(member)
    assert rig.queue.queue_of(member.pod.uid) == "unschedulable"
    rig.queue.move_on_event(NODE_ADD)
    assert rig.queue.queue_of(member.pod.uid) == "backoff"


def test_members_whose_bindings_failed_are_one_group_again() -> None:
    rig = rig_with(0, 1, 2)
    queued = rig.pop()
    rig.queue.put_back_group(queued, SUCCESS)
    for member in queued.in_order()[1:]:
        rig.queue.put_back(member)
    rig.time += 60
    rig.queue.tick()
    assert names(rig.pop()) == ["g-1", "g-2"]


def test_pod_that_comes_after_its_group_was_deleted_in_its_cycle_is_kept() -> None:
    rig = rig_with(0)
    queued = rig.pop()
    rig.change(gang("g", 2), None)
    rig.add("g", 1)
    rig.finish(queued, REJECTED, "g-0")
    assert rig.queue.count_by_queue()["incomplete"] == 2


def test_updated_pod_of_a_waiting_group_is_the_new_one() -> None:
    rig = rig_with(0, 1)
    new = PendingPod(members("g", 2, cpu="2")[1], rig.interner)
    rig.queue.update(new)
    assert new in rig.pop().pods


def test_group_with_a_new_object_is_popped_with_it() -> None:
    rig = rig_with(0, 1)
    rig.put(gang("g", 1))
    assert rig.pop().root == gang("g", 1)


def test_member_whose_binding_failed_takes_the_others_along_into_its_backoff() -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    rig.finish(queued, SUCCESS, "g-1")
    assert rig.queue.count_by_queue()["active"] == 1
    rig.queue.put_back(queued.in_order()[0])
    assert rig.queue.count_by_queue()["backoff"] == 2 and rig.queue.pop() is None


class CountingRig(Rig):
    """A rig that counts the questions to gates."""

    asked_about = 0

    def run_pre_enqueue(self, pod: PendingPod) -> Status | None:
        self.asked_about += 1
        return super().run_pre_enqueue(pod)


def test_gates_are_asked_once_about_each_pod_of_a_large_group() -> None:
    rig = GroupRig()
    rig.rig = counted = CountingRig()
    rig.queue.policy = counted
    rig.put(gang("g", 100))
    pods = rig.add("g", *range(100))
    for pod in pods:
        rig.queue.update(pod)
    assert counted.asked_about == 100
    for pod in pods:
        rig.queue.delete(pod.uid)
    assert counted.asked_about == 100 and len(rig.queue) == 0


def test_group_stays_in_its_queue_when_its_first_pod_is_deleted() -> None:
    for queue, status in (("unschedulable", REJECTED), ("backoff", ERROR)):
        rig = rig_with(0, 1)
        queued = rig.pop()
        rig.finish(queued, status, "g-0", "g-1")
        rig.queue.delete(queued.pod.uid)
        assert rig.queue.count_by_queue()[queue] == 1


# -- trees -----------------------------------------------------------------------------------------------------------


ROOT, LEFT = tree("root", 2), below("root", gang("left", 1))
RIGHT = below("root", gang("right", 1))


def rig_of_tree(*groups: GenericPodGroup) -> GroupRig:
    rig = GroupRig()
    for group in groups or (ROOT, LEFT, RIGHT):
        rig.put(group)
    return rig


def test_root_is_popped_with_the_pods_of_all_its_groups() -> None:
    rig = rig_of_tree()
    rig.add("left", 0)
    rig.add("right", 0, 1)
    queued = rig.pop()
    assert queued.root == ROOT and sorted(names(queued)) == ["left-0", "right-0", "right-1"]
    assert rig.queue.pop() is None


def test_pods_are_incomplete_until_the_last_group_above_them_is_known() -> None:
    rig = rig_of_tree(below("root", tree("middle")), below("middle", gang("left", 1)))
    (pod,) = rig.add("left", 0)
    waiting = next(rig.queue.pods_in("incomplete"))
    assert waiting.pod is pod
    assert waiting.gate_message == "waiting for CompositePodGroup default/root: there is none"
    rig.put(ROOT)
    assert names(rig.pop()) == ["left-0"]


def test_pods_below_a_deleted_group_are_incomplete_and_the_others_stay() -> None:
    rig = rig_of_tree(ROOT, below("root", tree("middle")), below("middle", gang("left", 1)), RIGHT)
    rig.add("left", 0)
    rig.add("right", 0)
    rig.change(below("root", tree("middle")), None)
    counts = rig.queue.count_by_queue()
    assert (counts["active"], counts["incomplete"]) == (1, 1)
    assert names(rig.pop()) == ["right-0"]


def test_pods_of_the_tree_of_a_deleted_root_are_incomplete() -> None:
    rig = rig_of_tree()
    rig.add("left", 0)
    rig.add("right", 0)
    rig.change(ROOT, None)
    assert rig.queue.count_by_queue()["incomplete"] == 2 and rig.queue.pop() is None
    rig.put(ROOT)
    assert len(rig.pop().members) == 2


def test_pod_of_another_group_that_comes_during_the_cycle_of_its_root_is_pending() -> None:
    rig = rig_of_tree()
    rig.add("left", 0)
    queued = rig.pop()
    (late,) = rig.add("right", 0)
    assert rig.queue.queue_of(late.uid) == "pending"
    rig.finish(queued, REJECTED, "left-0")
    assert sorted(queued.pod.name for queued in rig.queue.pods_in("unschedulable")) == ["left-0", "right-0"]


def test_pods_whose_group_left_its_tree_during_the_cycle_are_incomplete() -> None:
    rig = rig_of_tree()
    rig.add("left", 0)
    rig.add("right", 0)
    queued = rig.pop()
    rig.change(LEFT, None)
    rig.finish(queued, REJECTED, "left-0", "right-0")
    counts = rig.queue.count_by_queue()
    assert (counts["incomplete"], counts["unschedulable"]) == (1, 1)


def test_group_that_is_made_again_below_another_root_takes_its_pods_along() -> None:
    rig = rig_of_tree(ROOT, LEFT, tree("other"))
    rig.add("left", 0)
    rig.change(LEFT, below("other", gang("left", 1)))
    assert rig.pop().root == tree("other") and rig.queue.pop() is None


def test_event_for_one_pod_requeues_its_whole_root() -> None:
    rig = rig_of_tree()
    rig.add("left", 0)
    (pod,) = rig.add("right", 0)
    rig.finish(rig.pop(), REJECTED, "left-0", "right-0")
    rig.queue.activate(pod.uid)
    assert rig.queue.count_by_queue()["active"] == 2


def test_entities_are_counted_by_type() -> None:
    rig = rig_of_tree(ROOT, LEFT, RIGHT, gang("alone", 1))
    rig.add("left", 0)
    rig.add("right", 0)
    rig.add("alone", 0)
    counts = rig.queue.count_entities()
    assert [counts["active", kind] for kind in ("pod", "podgroup", "compositepodgroup")] == [0, 1, 1]
    assert {kind for _, _, kind in rig.queue.incoming_groups} == {"podgroup", "compositepodgroup"}


class LargeGroup(GroupRig):
    """A large group with one gated pod. One turn is too short to ask all its pods about their gates."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        ask = self.rig.run_pre_enqueue

        def counted(pod: PendingPod) -> Status | None:
            self.asked += 1
            return ask(pod)

        self.rig.run_pre_enqueue = counted  # type: ignore[method-assign]  # it counts
        self.rig.gates["g-5"] = "Fit"
        self.put(gang("g", 2))
        self.pods = self.add("g", *range(2 * GATES_PER_TURN + 1))

    @property
    def place(self) -> str:
        return self.queue.queue_of(self.pods[0].uid)

    def asked_in_turns(self) -> list[int]:
        """Let the group in; return about how many pods each turn asks."""
        asked = []
        before = self.asked
        for _ in self.queue.let_in_unasked():
            asked.append(self.asked - before)
            before = self.asked
        return asked


def test_large_group_is_asked_about_its_gates_in_turns_before_it_enters() -> None:
    large = LargeGroup()
    assert large.place == "gated" and not large.queue.unasked
    large.rig.gates.clear()
    large.asked = 0
    large.queue.move_on_event(NODE_ADD)
    large.queue.move_on_event(NODE_ADD)
    assert large.asked <= 4 and large.place == "gated" and large.queue.pop() is None
    assert large.asked_in_turns() == [GATES_PER_TURN, GATES_PER_TURN, 1]
    assert large.place == "active" and large.pop().attempts == 1


def test_large_group_stays_gated_if_another_of_its_pods_is() -> None:
    large = LargeGroup()
    large.rig.gates = {f"g-{GATES_PER_TURN}": "Taints"}
    large.queue.move_on_event(NODE_ADD)
    assert large.asked_in_turns()[:2] == [GATES_PER_TURN, 1]
    assert large.place == "gated"
    assert {member.gating_plugin for member in large.queue.pods_in("gated")} == {"Taints"}
    large.asked = 0
    large.queue.move_on_event(NODE_ADD)
    assert large.asked == 0  # its plugin did not register that


def test_large_group_that_is_deleted_before_its_gates_are_asked_does_not_enter() -> None:
    large = LargeGroup()
    large.rig.gates.clear()
    large.queue.move_on_event(NODE_ADD)
    large.change(large.trees.get(("podgroup", "default", "g")), None)
    assert large.asked_in_turns() == [] and large.place == "incomplete"


def test_activated_large_group_enters_before_its_backoff_is_over() -> None:
    large = LargeGroup()
    large.rig.gates.clear()
    large.queue.move_on_event(NODE_ADD)
    large.asked_in_turns()
    queued = large.pop()
    large.finish(queued, ERROR, *names(queued))
    large.asked_in_turns()
    assert large.place == "backoff"
    large.queue.activate(large.pods[0].uid)
    large.asked_in_turns()
    assert large.place == "active"
