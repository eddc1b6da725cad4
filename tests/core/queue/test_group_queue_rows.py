"""Kubernetes 1.37's tables of the queue of groups, row by row: what happens to it, and what follows a cycle."""

from __future__ import annotations

import pytest

from kframework.core.queue.queued_group import QueuedGroup
from kframework.framework.events import ObservedEvent
from kframework.state.pods import PendingPod
from kframework.values.status import Status
from tests.core.queue.rig import ANYTHING, NODE_ADD, NODE_TAINT
from tests.core.queue.test_group_queue import ERROR, REJECTED, SUCCESS, GroupRig, by_priority, names, rig_with
from tests.support.groups import gang

#: The queues in which a group can wait.
QUEUES = ("active", "backoff", "backoff after an error", "unschedulable", "gated")


def waiting(queue: str) -> GroupRig:
    """Make a rig with the pods g-0 and g-1 of a group in this queue."""
    if queue == "gated":
        rig = GroupRig()
        rig.rig.gates["g-0"] = "Fit"
        rig.put(gang("g", 2))
        rig.add("g", 0, 1)
        return rig
    rig = rig_with(0, 1)
    if queue != "active":
        rig.finish(rig.pop(), ERROR if queue.endswith("error") else REJECTED, "g-0", "g-1")
    if queue == "backoff":
        rig.queue.move_on_event(NODE_ADD)
    return rig


def where(rig: GroupRig) -> dict[str, int]:
    return {queue: count for queue, count in rig.queue.count_by_queue().items() if count}


# -- pods that come and go ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "seconds", "expected"),
    [
        pytest.param("active", 0, "active", id="active"),
        pytest.param("backoff", 0, "backoff", id="backoff"),
        pytest.param("backoff after an error", 0, "backoff", id="backoff after an error"),
        pytest.param("unschedulable", 0, "backoff", id="waits"),
        pytest.param("unschedulable", 60, "active", id="waited"),
        pytest.param("gated", 0, "gated", id="gated"),
    ],
)
def test_new_pod_joins_its_group(queue: str, seconds: float, expected: str) -> None:
    rig = waiting(queue)
    rig.time += seconds
    rig.add("g", 2)
    assert where(rig) == {expected: 3}


@pytest.mark.parametrize("queue", QUEUES)
def test_gated_pod_gates_the_group_that_it_joins(queue: str) -> None:
    rig = waiting(queue)
    rig.rig.gates["g-2"] = "Labels"
    rig.add("g", 2)
    assert where(rig) == {"gated": 3}


def test_new_pod_joins_a_group_whose_gate_opened_unnoticed_and_both_are_active() -> None:
    rig = waiting("gated")
    rig.rig.gates.clear()
    rig.add("g", 2)
    assert where(rig) == {"active": 3}


@pytest.mark.parametrize("queue", QUEUES)
def test_deleted_pod_leaves_its_group_wherever_that_waits(queue: str) -> None:
    for number in range(2):
        rig = waiting(queue)
        uids = {queued.pod.name: queued.pod.uid for name in where(rig) for queued in rig.queue.pods_in(name)}
        rig.queue.delete(uids[f"g-{number}"])
        assert where(rig) in ({queue.partition(" ")[0]: 1}, {"active": 1})
        rig.queue.delete(uids[f"g-{1 - number}"])
        assert where(rig) == {} and len(rig.queue) == 0


def test_deleted_pod_is_neither_incomplete_nor_pending_any_more() -> None:
    rig = GroupRig()
    (lonely,) = rig.add("other", 0)
    rig.put(gang("g", 1))
    rig.add("g", 0)
    queued = rig.pop()
    (late,) = rig.add("g", 1)
    assert where(rig) == {"incomplete": 1, "pending": 1}
    rig.queue.delete(lonely.uid)
    rig.queue.delete(late.uid)
    assert where(rig) == {}
    rig.finish(queued, SUCCESS)
    assert len(rig.queue) == 0


@pytest.mark.parametrize("queue", QUEUES)
def test_pods_of_a_group_that_is_deleted_and_made_again_enter_anew(queue: str) -> None:
    rig = waiting(queue)
    rig.change(gang("g", 2), None)
    assert where(rig) == {"incomplete": 2}
    rig.rig.gates.clear()
    rig.put(gang("g", 2))
    assert where(rig) == {"active": 2}


# -- order ----------------------------------------------------------------------------------------------------------


def test_groups_and_pods_are_ordered_by_priority_and_then_by_the_time_they_came() -> None:
    rig = GroupRig()
    rig.rig.sort = by_priority
    for name, priority in (("low", 0), ("old", 5), ("new", 5), ("high", 9)):
        rig.put(gang(name, 1, priority))
    for name in ("low", "old", "new", "high"):
        rig.add(name, 0)
        rig.time += 1
    assert [names(rig.pop())[0] for _ in range(4)] == ["high-0", "old-0", "new-0", "low-0"]


# -- events ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "pending", "expected"),
    [
        (NODE_ADD, False, "backoff"),
        (NODE_ADD, True, "active"),
        (NODE_TAINT, False, "backoff"),
        (NODE_TAINT, True, "backoff"),
        (ANYTHING, False, "backoff"),
        (ObservedEvent("Node", NODE_TAINT.action, name="other"), False, "backoff"),
    ],
)
def test_strongest_answer_for_any_pod_of_a_group_counts(event: ObservedEvent, pending: bool, expected: str) -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    first, second = queued.in_order()
    first.unschedulable_plugins, second.unschedulable_plugins = frozenset({"Fit"}), frozenset({"Taints"})
    first.pending_plugins = frozenset({"Fit"}) if pending else frozenset()
    for member in (first, second):
        rig.queue.put_back(member)
    rig.queue.put_back_group(queued, REJECTED)
    assert where(rig) == {"unschedulable": 2}
    rig.queue.move_on_event(event)
    assert where(rig) == {expected: 2}


# -- after a cycle --------------------------------------------------------------------------------------------------


def left(rig: GroupRig) -> QueuedGroup:
    (queued,) = rig.queue
    assert isinstance(queued, QueuedGroup)
    return queued


@pytest.mark.parametrize(
    ("status", "failed", "late", "queue", "counts"),
    [
        pytest.param(SUCCESS, [], False, {}, None, id="nothing left"),
        pytest.param(SUCCESS, ["g-1"], False, {"active": 1}, (0, 0), id="scheduled in part"),
        pytest.param(SUCCESS, [], True, {"active": 1}, (0, 0), id="scheduled, and one came"),
        pytest.param(SUCCESS, ["g-0", "g-1"], False, {"unschedulable": 2}, (3, 0), id="scheduled, but all failed then"),
        pytest.param(SUCCESS, ["g-0", "g-1"], True, {"active": 3}, (0, 0), id="the same, and one came"),
        pytest.param(REJECTED, ["g-0", "g-1"], False, {"unschedulable": 2}, (3, 0), id="rejected"),
        pytest.param(REJECTED, ["g-0", "g-1"], True, {"unschedulable": 3}, (3, 0), id="rejected, and one came"),
        pytest.param(ERROR, ["g-0", "g-1"], False, {"backoff": 2}, (2, 2), id="error"),
    ],
)
def test_group_waits_as_its_status_says(
    status: Status, failed: list[str], late: bool, queue: dict[str, int], counts: tuple[int, int] | None
) -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    queued.unschedulable_count, queued.consecutive_errors = 2, 1
    if late:
        rig.add("g", 2)
    rig.finish(queued, status, *failed)
    assert where(rig) == queue
    if counts is not None:
        assert (left(rig).unschedulable_count, left(rig).consecutive_errors) == counts
    assert len(rig.queue.in_flight) == 2 - len(failed)  # those with a node are, until they are bound
    assert (rig.queue.pop() is None) == ("active" not in queue)  # neither a wait nor an error's backoff is cut short


@pytest.mark.parametrize(("failed", "keeps"), [(["g-1"], True), ([], False)])
def test_left_group_keeps_its_time_if_a_pod_of_it_was_attempted(failed: list[str], keeps: bool) -> None:
    rig = rig_with(0, 1)
    came = rig.time
    rig.time += 5
    queued = rig.pop()
    rig.add("g", 2)
    rig.finish(queued, SUCCESS, *failed)
    assert left(rig).timestamp == (came if keeps else rig.time)


def test_rejected_group_backs_off_longer_each_time() -> None:
    rig = rig_with(0, 1)
    waits = []
    for _ in range(6):
        rig.finish(rig.pop(), REJECTED, "g-0", "g-1")
        rig.queue.move_on_event(NODE_ADD)
        waits.append(rig.queue.backoff_expires_at(left(rig)) - 1 - rig.time)
        rig.time += 20
        rig.queue.tick()
    assert waits == [1, 2, 4, 8, 10, 10]


def test_attempts_are_counted_for_the_group_and_for_each_pod() -> None:
    rig = rig_with(0, 1)
    rig.finish(rig.pop(), SUCCESS, "g-1")
    rig.add("g", 2)
    queued = rig.pop()
    assert queued.attempts == 2
    assert {member.pod.name: member.attempts for member in queued.in_order()} == {"g-1": 2, "g-2": 1}


def test_activated_pod_in_flight_is_tried_again_with_its_group() -> None:
    rig = rig_with(0, 1)
    queued = rig.pop()
    member: PendingPod = queued.in_order()[1].pod
    rig.queue.activate(member.uid)
    rig.finish(queued, REJECTED, "g-0", "g-1")
    assert where(rig) == {"backoff": 2}
