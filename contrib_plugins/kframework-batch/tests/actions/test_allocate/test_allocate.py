"""allocate: who gets room, in which order, and what is left as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import TaskInfo
from kframework_batch.objects import QueueStatus
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import Node, ObjectMeta, PriorityClass
from kframework.values.status import Status, unschedulable

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
"""

IMPORTANT = PriorityClass(metadata=ObjectMeta(name="important"), value=100)


@pytest.fixture(autouse=True)
def _sessions_run_to_their_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail where an action has raised: a session that ends early looks like one that found nothing."""
    yield
    assert "ended early" not in caplog.text


def counts(stage: Stage) -> Counter[str]:
    """Count the tasks of each job that were bound."""
    return Counter(name.rpartition("-")[0] for name in stage.bound)


@pytest.mark.parametrize(
    ("minimum", "cpus", "bound"),
    [
        pytest.param(4, 4, 4, id="room for all"),
        pytest.param(4, 3, 0, id="one too few"),
        pytest.param(3, 3, 3, id="room for the minimum"),
        pytest.param(2, 3, 3, id="room for more than the minimum"),
        pytest.param(0, 1, 1, id="no minimum"),
        pytest.param(4, 9, 4, id="more room than tasks"),
    ],
)
def test_gang_gets_at_least_its_minimum_or_nothing(minimum: int, cpus: int, bound: int) -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=cpus)], gangs=[make_gang("a", 4, minimum=minimum)])
    assert len(stage.session().bound) == bound


def test_gang_that_does_not_fit_leaves_room_to_other_jobs() -> None:
    gangs = [make_gang("large", 5, age=9), make_gang("small", 2)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert sorted(stage.bound) == ["small-0", "small-1"]
    assert stage.task("large-0").node_name == ""


def test_running_tasks_count_towards_the_minimum() -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=[make_gang("a", 3, minimum=3, on=["n1", "n1"])])
    assert list(stage.session().bound) == ["a-2"]


def test_older_of_two_equal_jobs_is_allocated_first() -> None:
    gangs = [make_gang("young", 3), make_gang("old", 3, age=9)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert sorted(stage.bound) == ["old-0", "old-1", "old-2"]


def test_job_of_higher_priority_is_allocated_first() -> None:
    gangs = [make_gang("old", 3, age=9), make_gang("young", 3, priority_class="important")]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs, objects=[IMPORTANT]).session()
    assert sorted(stage.bound) == ["young-0", "young-1", "young-2"]


def test_minimums_of_all_jobs_are_allocated_before_additional_tasks() -> None:
    gangs = [make_gang("old", 4, minimum=1, age=9), make_gang("young", 4, minimum=2)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert counts(stage) == {"old": 2, "young": 2}


class Taking(BatchPlugin):
    """The queue goes first that holds the fewest tasks, and may not hold more than it is given."""

    name = "taking"
    most: ClassVar[Mapping[str, int]] = {}
    overused_at: ClassVar[Mapping[str, int]] = {}

    @hookimpl
    def queue_order(self, session: Session, queue: QueueInfo) -> int:
        return self._held(session, queue)

    @hookimpl
    def overused(self, session: Session, queue: QueueInfo) -> bool:
        return self._held(session, queue) >= Taking.overused_at.get(queue.name, 99)

    @hookimpl
    def allocatable(self, session: Session, queue: QueueInfo, task: TaskInfo) -> bool:
        return self._held(session, queue) < Taking.most.get(queue.name, 99)

    def _held(self, session: Session, queue: QueueInfo) -> int:
        return sum(job.ready_num for job in session.jobs.values() if job.queue == queue.name)


@pytest.fixture
def taking(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(Taking, "most", {})
    monkeypatch.setattr(Taking, "overused_at", {})
    return monkeypatch


def two_queues(cpus: int, *gangs: Gang) -> Stage:
    """Run a session of two queues, a and b, under the plugin above."""
    return Stage(
        CONFIGURATION + "  - name: taking\n",
        nodes=[make_node("n1", cpu=cpus)],
        queues=[make_queue("a"), make_queue("b")],
        gangs=gangs,
        classes=[Taking],
    ).session()


def test_queues_are_reordered_after_each_turn(taking: pytest.MonkeyPatch) -> None:
    gangs = [make_gang("a", 6, minimum=1, queue="a", age=9), make_gang("b", 6, minimum=2, queue="b")]
    stage = two_queues(6, *gangs)
    assert counts(stage) == {"a": 3, "b": 3}


def test_overused_queue_gets_no_more_turns(taking: pytest.MonkeyPatch) -> None:
    taking.setattr(Taking, "overused_at", {"a": 2})
    stage = two_queues(9, make_gang("a1", 3, minimum=1, queue="a", age=9), make_gang("a2", 2, queue="a"))
    assert counts(stage) == {"a1": 1, "a2": 2}


def test_jobs_of_overused_queue_have_a_message(taking: pytest.MonkeyPatch) -> None:
    taking.setattr(Taking, "overused_at", {"a": 0})
    stage = two_queues(9, make_gang("a", 1, queue="a"))
    assert stage.message("a-0") == "queue a already holds its share"


def test_pods_beyond_the_minimum_of_an_overused_queue_have_a_message(taking: pytest.MonkeyPatch) -> None:
    taking.setattr(Taking, "overused_at", {"a": 1})
    stage = two_queues(9, make_gang("a", 2, minimum=1, queue="a"))
    assert counts(stage) == {"a": 1}
    (waiting,) = {"a-0", "a-1"} - stage.bound.keys()
    assert stage.message(waiting) == "queue a already holds its share"
    assert [decision.pod for decision in stage.decisions if not decision.node] == [f"default/{waiting}"]


def test_pod_of_a_closed_queue_has_a_message() -> None:
    closed = replace(make_queue("a"), status=QueueStatus(state="Closed"))
    stage = Stage(nodes=[make_node("n1", cpu=1)], queues=[closed], gangs=[make_gang("a", 1, queue="a")]).session()
    assert (stage.bound, stage.message("a-0")) == ({}, "queue a is not open")


def test_pod_of_a_missing_group_has_a_message() -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=1)], objects=[make_task("p", "nowhere")])
    assert stage.session().bound == {}
    assert stage.message("p") == "there is no pod group default/nowhere"


def test_best_effort_pod_has_a_message_without_backfill() -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=1)], gangs=[make_gang("a", 1, cpu=None)])
    assert stage.session().bound == {}
    assert stage.message("a-0") == "no action tried it: only backfill places pods without requests"


def test_task_that_exceeds_its_queue_is_skipped(taking: pytest.MonkeyPatch) -> None:
    taking.setattr(Taking, "most", {"a": 2})
    stage = two_queues(9, make_gang("a", 3, minimum=1, queue="a"))
    assert counts(stage) == {"a": 2}
    assert list(stage.job("a").fit_errors.values()) == ["queue a has no share left for it"]


def roles(minimum: int, minimums: Mapping[str, int], **sizes: tuple[int, int]) -> Gang:
    """Make a job of roles in this order, each with the number of its tasks and the CPUs of each."""
    group = make_group("a", minimum=minimum, roles=minimums)
    names = [(role, n, cpu) for role, (count, cpu) in sizes.items() for n in range(count)]
    index = {f"{role}-{n}": str(place) for place, (role, n, _) in enumerate(names)}
    pods = [
        make_task(f"{role}-{n}", "a", cpu=cpu, role=role, annotations={"volcano.sh/task-index": index[f"{role}-{n}"]})
        for role, n, cpu in names
    ]
    return group, pods


@pytest.mark.parametrize(
    ("gang", "bound"),
    [
        pytest.param(roles(2, {}, ps=(2, 99), w=(2, 1)), ["w-0", "w-1"], id="no role has a minimum"),
        pytest.param(roles(4, {}, ps=(2, 99), w=(2, 1)), [], id="all are needed"),
        pytest.param(roles(2, {"w": 2}, ps=(2, 99), w=(2, 1)), ["w-0", "w-1"], id="the role has no minimum"),
        pytest.param(roles(2, {"ps": 1, "w": 1}, ps=(2, 99), w=(2, 1)), [], id="the role lacks its minimum"),
        pytest.param(roles(2, {"ps": 2, "w": 2}, ps=(2, 99), w=(2, 1)), ["w-0", "w-1"], id="enough of other roles"),
        pytest.param(roles(3, {"ps": 2, "w": 2}, ps=(2, 99), w=(2, 1)), [], id="too few of other roles"),
        pytest.param(roles(2, {"w": 2}, w=(2, 1), x=(1, 99), y=(1, 1)), ["w-0", "w-1", "y-0"], id="beyond the minimum"),
    ],
)
def test_further_tasks_are_tried_while_job_can_still_become_ready(gang: Gang, bound: list[str]) -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=8)], gangs=[gang]).session()
    assert sorted(stage.bound) == bound


def test_failed_role_is_not_tried_again() -> None:
    stage = Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=[roles(1, {}, ps=(2, 99), w=(1, 1))]).session()
    assert stage.message("ps-0") == "0/1 nodes are available: 1 Insufficient cpu."
    assert stage.message("ps-1") == "another task of role ps found no node"


def test_tasks_without_role_are_tried_individually() -> None:
    group = make_group("a", minimum=1)
    pods = [make_task("large", "a", cpu=99), make_task("small", "a", cpu=1), make_task("larger", "a", cpu=98)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=[(group, pods)]).session()
    assert list(stage.bound) == ["small"]
    assert stage.message("large") == stage.message("larger") == "0/1 nodes are available: 1 Insufficient cpu."


def leaving(name: str, cpu: int) -> Gang:
    """Make a job whose only pod is on its way out of n1."""
    return make_group(name, phase="Running"), [
        make_task(name, name, cpu=cpu, node="n1", deletion_timestamp="2026-01-01T00:00:00Z")
    ]


def test_room_is_reserved_for_gang_that_waits_for_terminating_pods() -> None:
    gangs = [leaving("gone", 2), make_gang("first", 4, age=9), make_gang("second", 2)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert stage.bound == {}
    stage.delete("gone")
    assert sorted(stage.session().bound) == ["first-0", "first-1", "first-2", "first-3"]


def test_allocated_tasks_are_bound_although_others_are_pipelined() -> None:
    gangs = [leaving("gone", 1), make_gang("a", 3, minimum=2)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=3)], gangs=gangs).session(2)
    assert counts(stage) == {"a": 2}
    stage.delete("gone")
    assert counts(stage.session()) == {"a": 3}


def test_no_room_is_reserved_for_gang_that_would_still_lack_room() -> None:
    gangs = [leaving("gone", 2), make_gang("first", 5, age=9), make_gang("second", 2)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert sorted(stage.bound) == ["second-0", "second-1"]


def test_gang_that_lost_members_reserves_room_for_some_of_them() -> None:
    there = make_gang("there", 1, on=["n1"])
    gangs = [there, make_gang("first", 4, on=["n1"] * 2, age=9), make_gang("second", 1)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1", cpu=4)], gangs=gangs).session()
    assert stage.bound == {}
    stage.delete("there-0")
    assert sorted(stage.session().bound) == ["first-2", "first-3"]


@pytest.mark.parametrize(
    ("node", "nominated", "expected"),
    [
        pytest.param(make_node("n2"), "n2", "n2", id="it has room"),
        pytest.param(make_node("n2"), "", "n1", id="none"),
        pytest.param(make_node("n2"), "n3", "n1", id="it is gone"),
        pytest.param(make_node("n2", cpu=1), "n2", "n1", id="it is full"),
        pytest.param(make_node("n2", unschedulable=True), "n2", "n1", id="it does not let the task in"),
    ],
)
def test_nominated_node_is_tried_first(node: Node, nominated: str, expected: str) -> None:
    # n1 is empty and therefore the better one, for whoever compares.
    group = make_group("a")
    there = make_gang("b", 1, on=["n2"])
    pods = [make_task("a-0", "a", nominated_node_name=nominated)]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1"), node], gangs=[there, (group, pods)]).session()
    assert stage.bound == {"a-0": expected}


@pytest.mark.parametrize(
    ("actions", "bound"), [('"enqueue, allocate"', []), ("allocate", ["a-0"])], ids=["enqueue", "no enqueue"]
)
def test_pending_jobs_are_enqueued_when_no_enqueue_action_is_configured(actions: str, bound: list[str]) -> None:
    class Closed(BatchPlugin):
        name = "closed"

        @hookimpl
        def job_enqueueable(self, session: Session, job: object) -> int:
            return -1

    configuration = CONFIGURATION.replace('"enqueue, allocate"', actions) + "  - name: closed\n"
    gang = make_gang("a", 1, phase="Pending", resources={"cpu": 1})
    stage = Stage(configuration, nodes=[make_node("n1")], gangs=[gang], classes=[Closed]).session()
    assert list(stage.bound) == bound


def test_allocate_ignores_gated_and_best_effort_tasks() -> None:
    group = make_group("a")
    pods = [make_task("gated", "a", gates=["wait"]), make_task("idle", "a", cpu=None), make_task("plain", "a")]
    stage = Stage(CONFIGURATION, nodes=[make_node("n1")], gangs=[(group, pods)]).session()
    assert list(stage.bound) == ["plain"]


class Refusing(BatchPlugin):
    """Has something against one task."""

    name = "refusing"

    @hookimpl
    def allocated(self, session: Session, task: TaskInfo) -> Status | None:
        return unschedulable("no") if task.name == "a-0" else None


def test_task_rejected_by_plugin_takes_no_room() -> None:
    gang = make_gang("a", 2, minimum=1)
    configuration = CONFIGURATION + "  - name: refusing\n"
    stage = Stage(configuration, nodes=[make_node("n1", cpu=2)], gangs=[gang], classes=[Refusing]).session()
    assert list(stage.bound) == ["a-1"]
    assert stage.message("a-0") == "no"


@st.composite
def any_gangs(draw: st.DrawFn) -> list[Gang]:
    def gangs() -> Iterator[Gang]:
        for n in range(draw(st.integers(1, 5))):
            size = draw(st.integers(1, 4))
            minimum, cpu = draw(st.integers(0, size)), draw(st.integers(1, 3))
            yield make_gang(f"g{n}", size, minimum=minimum, cpu=cpu, age=draw(st.integers(0, 2)))

    return list(gangs())


@given(any_gangs(), st.lists(st.integers(1, 6), min_size=1, max_size=3))
def test_jobs_are_bound_with_their_minimum_and_use_all_room(gangs: list[Gang], cpus: list[int]) -> None:
    nodes = [make_node(f"n{place}", cpu=amount) for place, amount in enumerate(cpus)]
    stage = Stage(CONFIGURATION, nodes=nodes, gangs=gangs).session()
    free = {f"n{place}": amount * 1000 for place, amount in enumerate(cpus)}
    for name, node in stage.bound.items():
        free[node] -= stage.task(name).request["cpu"]
    assert min(free.values()) >= 0
    for group, pods in gangs:
        count = sum(pod.metadata.name in stage.bound for pod in pods)
        assert count == 0 or count >= group.spec.min_member
        waiting = [pod for pod in pods if pod.metadata.name not in stage.bound]
        if waiting and count >= group.spec.min_member:
            assert stage.task(waiting[0].metadata.name).request["cpu"] > max(free.values())
