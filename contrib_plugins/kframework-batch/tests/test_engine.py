"""The engine: when a session begins, what may happen around it, and what its consequences come to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kframework_batch.account import DeletedJob
from kframework_batch.action import Action
from kframework_batch.config import parse
from kframework_batch.objects import PodGroup, Queue
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.program import compile_program
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework import PluginError
from kframework.clock import VIRTUAL_EPOCH
from kframework.engine import AnswersInvalidated
from kframework.objects import Node, OwnerReference, Pod

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


def staged(**more: Any) -> Stage:
    more.setdefault("nodes", [make_node("n1", cpu=4), make_node("n2", cpu=4)])
    return Stage(more.pop("configuration", CONFIGURATION), **more)


def run(stage: Stage) -> int:
    """Let the engine work until there is nothing to do; return how many sessions that took."""
    before = stage.engine.sessions
    while stage.engine.step():
        pass
    return stage.engine.sessions - before


def test_first_session_begins_after_sync_and_the_next_after_a_change() -> None:
    stage = staged(gangs=[make_gang("a", 2)])
    assert run(stage) == 1
    assert stage.bound == {"a-0": stage.bound["a-0"], "a-1": stage.bound["a-1"]}
    assert stage.engine.deadline == VIRTUAL_EPOCH + 1.0, "the pods run now, which is news"
    assert run(stage) == 0, "but not before a period is over"
    stage.time += 1.0
    assert run(stage) == 1
    stage.time += 1.0
    run(stage)
    stage.time += 10.0
    assert (run(stage), stage.engine.is_idle) == (0, True)
    assert stage.engine.deadline is None


def test_no_session_begins_before_sync() -> None:
    stage = staged()
    stage.engine.inbox = type(stage.engine.inbox)()  # without the word that all is listed
    for obj in (make_node("n1"), *make_gang("a", 1)[1]):
        stage.put(obj)
    assert (run(stage), stage.engine.synced, stage.engine.is_idle) == (0, False, False)
    assert stage.engine.deadline is None, "or it would be asked again at once, as long as the API is away"


def test_standby_engine_has_no_deadline() -> None:
    stage = staged(gangs=[make_gang("a", 1)])
    stage.engine.apply_messages()
    assert (stage.engine.sessions, stage.engine.deadline) == (0, None), "or its scheduler would not rest"
    assert run(stage) == 1
    assert stage.engine.deadline == VIRTUAL_EPOCH + 1.0


def test_heartbeat_starts_no_session() -> None:
    stage = staged(gangs=[make_gang("a", 9)]).session(3)
    stage.time += 1.0
    run(stage)
    stage.time += 1.0
    node = stage.objects[Node, "n1"]
    stage.put(replace(node, metadata=replace(node.metadata, resource_version="99")))
    assert (run(stage), stage.engine.is_idle) == (0, True)


def test_plugin_can_request_a_session_without_changes() -> None:
    class Alarm(BatchPlugin):
        name = "alarm"

        @hookimpl
        def wakes_at(self, session: Session) -> float | None:
            return VIRTUAL_EPOCH + 50.0 if session.now < VIRTUAL_EPOCH + 50.0 else None

    stage = staged(configuration=CONFIGURATION.replace("{name: gang}", "{name: gang}, {name: alarm}"), classes=[Alarm])
    run(stage)
    assert (stage.engine.deadline, stage.engine.is_idle) == (VIRTUAL_EPOCH + 50.0, False)
    stage.time += 49.0
    assert run(stage) == 0
    stage.time += 1.0
    assert (run(stage), stage.engine.is_idle) == (1, True)


def test_overdue_wake_time_waits_for_the_next_session() -> None:
    class Late(BatchPlugin):
        name = "late"

        @hookimpl
        def wakes_at(self, session: Session) -> float | None:
            return session.now - 100.0

    stage = staged(configuration=CONFIGURATION.replace("{name: gang}", "{name: gang}, {name: late}"), classes=[Late])
    run(stage)
    assert stage.engine.deadline == stage.time + 1.0


def test_invalidated_answers_start_another_session() -> None:
    stage = staged()
    run(stage)
    stage.time += 5.0
    assert run(stage) == 0
    stage.engine.request(AnswersInvalidated(("n1", "gone")))
    assert run(stage) == 1


def test_inbox_is_not_drained_while_a_session_is_open() -> None:
    stage = staged(gangs=[make_gang("a", 4)])
    assert stage.engine.step()
    stage.put(make_node("n3"))
    while stage.engine.step():
        assert len(stage.engine.inbox) == 0 or "n3" not in stage.engine.cluster.nodes
    assert "n3" in stage.engine.cluster.nodes


@pytest.mark.parametrize("steps", range(1, 12))
def test_interrupted_session_keeps_only_committed_changes(steps: int) -> None:
    stage = staged(gangs=[make_gang("a", 2, age=9), make_gang("b", 2), make_gang("c", 9)])
    for _ in range(steps):
        stage.engine.step()
    stage.engine.apply_messages()
    assert not stage.engine.cluster.statements
    bound = set(stage.bound)
    assert bound in (set(), {"a-0", "a-1"}, {"a-0", "a-1", "b-0", "b-1"})
    waiting = {task.name for task in stage.engine.cache.tasks.values() if task.status is TaskStatus.PENDING}
    assert waiting == {f"{job}-{n}" for job, size in (("a", 2), ("b", 2), ("c", 9)) for n in range(size)} - bound
    stage.session()
    assert set(stage.bound) == {"a-0", "a-1", "b-0", "b-1"}


def test_exception_of_an_action_ends_the_session_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Action):
        name = "broken"

        def run(self, session: Session) -> Iterator[None]:
            session.statement()  # and never closed
            yield
            raise ZeroDivisionError("no")

    stage = staged(
        configuration=CONFIGURATION.replace("backfill", "broken"), gangs=[make_gang("a", 2)], classes=[Broken]
    )
    run(stage)
    assert set(stage.bound) == {"a-0", "a-1"}, "what was committed before stays"
    assert [record.message for record in caplog.records] == [
        "the session ended early: plugin 'broken', hook run: ZeroDivisionError: no"
    ]
    assert not stage.engine.cluster.statements
    stage.time += 1.0
    assert (run(stage), len(caplog.records)) == (1, 1)
    caplog.clear()


def test_reloaded_program_is_used_from_the_next_session() -> None:
    tainted = make_node("n1", cpu=4, taints=["dedicated=x:NoSchedule"])
    stage = staged(nodes=[tainted], gangs=[make_gang("a", 1)]).session()
    assert stage.bound == {}
    switch = "{name: predicates, arguments: {predicate.TaintTolerationEnable: false}}"
    stage.engine.reload(compile_program(parse(CONFIGURATION.replace("{name: predicates}", switch))))
    assert stage.bound == {}
    stage.time += 1.0
    assert run(stage) == 1
    assert stage.bound == {"a-0": "n1"}


def test_reload_with_same_core_plugins_keeps_them() -> None:
    stage = staged().session()
    before = stage.engine.profiles
    stage.engine.reload(compile_program(parse(CONFIGURATION.replace("backfill", "shuffle"))))
    stage.session()
    assert stage.engine.profiles is before


def test_failed_binding_is_undone_reported_and_retried() -> None:
    stage = staged(gangs=[make_gang("a", 1)])
    stage.unbindable["a-0"] = "the server is on fire"
    stage.session()
    assert (stage.bound, stage.engine.cluster.assumed) == ({}, set())
    assert (stage.task("a-0").status, stage.task("a-0").node_name) == (TaskStatus.PENDING, "")
    assert (stage.conditions["a-0"].reason, stage.message("a-0")) == ("SchedulerError", "the server is on fire")
    assert ("FailedScheduling", "the server is on fire") in stage.events
    stage.unbindable.clear()
    stage.session()
    assert set(stage.bound) == {"a-0"}
    assert [decision.pod_attempts for decision in stage.decisions] == [1, 2]
    assert ("Scheduled", f"Successfully assigned default/a-0 to {stage.bound['a-0']}") in stage.events


def test_gang_that_lost_a_member_is_completed_or_evicted() -> None:
    stage = staged(gangs=[make_gang("a", 3)], gang_timeout=30.0)
    stage.unbindable["a-2"] = "no"
    stage.session()
    assert set(stage.bound) == {"a-0", "a-1"}
    deadline = stage.engine._broken_gangs.deadline
    assert deadline == stage.time + 30.0
    stage.session(5)
    assert stage.evicted == {}
    stage.time = deadline
    run(stage)
    assert set(stage.evicted) == {"a-0", "a-1"}
    assert {reason for reason, _ in stage.events} >= {"GangBroken", "Evict"}


def test_gang_completed_in_time_is_not_evicted() -> None:
    stage = staged(gangs=[make_gang("a", 3)], gang_timeout=30.0)
    stage.unbindable["a-2"] = "no"
    stage.session(2)
    stage.unbindable.clear()
    stage.session(2)
    assert set(stage.bound) == {"a-0", "a-1", "a-2"}
    stage.time += 60.0
    stage.session()
    assert (stage.evicted, stage.engine._broken_gangs.deadline) == ({}, None)


def test_phases_and_conditions_are_written_when_changed() -> None:
    stage = staged(gangs=[make_gang("fits", 2), make_gang("big", 9)]).session(2)
    assert (stage.phase("fits"), stage.phase("big")) == ("Running", "Inqueue")
    group = stage.objects[PodGroup, "big"]
    assert isinstance(group, PodGroup)
    (condition,) = group.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotEnoughResources")
    assert condition.message.startswith("3/9 tasks in gang unschedulable: pod group is not ready, 9 Pending, 9 minAv")
    before = len(stage.events)
    stage.session(3)
    assert len(stage.events) == before, "nothing is said twice"
    assert stage.objects[PodGroup, "big"] is group


def test_unschedulable_group_gets_a_warning_once() -> None:
    stage = staged(gangs=[make_gang("big", 10)]).session(3)

    def warnings() -> list[str]:
        return [note for reason, note in stage.events if reason == "Unschedulable"]

    (warning,) = warnings()
    assert warning.startswith("2/10 tasks in gang unschedulable: pod group is not ready, 10 Pending, 10 minAv")
    stage.put(make_node("n3", cpu=1))
    stage.session(2)
    assert [text[:4] for text in warnings()] == ["2/10", "1/10"]
    stage.put(make_node("n4", cpu=1))
    stage.session(2)
    assert (len(warnings()), stage.phase("big")) == (2, "Running")
    for n in range(10):
        stage.delete(f"big-{n}")
        stage.put(make_task(f"again-{n}", "big", cpu=3))
    stage.session()
    assert len(warnings()) == 3, "it is new again"


def test_pipelined_pod_names_its_node() -> None:
    stage = staged(gangs=[make_gang("old", 2, on=["n1", "n2"], cpu=3), make_gang("new", 2, cpu=3)])
    for name in ("old-0", "old-1"):
        pod = stage.objects[Pod, name]
        stage.put(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    stage.session()
    text = "once resource is released and minAvailable is satisfied"
    assert all(stage.message(name).endswith(text) for name in ("new-0", "new-1"))
    assert stage.bound == {}
    for name in ("old-0", "old-1"):
        stage.delete(name)
    stage.session()
    assert set(stage.bound) == {"new-0", "new-1"}


def test_deleted_group_is_in_the_account_once() -> None:
    owner = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="train", uid="u")
    group, pods = make_gang("a", 2, on=["n1", "n1"])
    stage = staged(gangs=[(replace(group, metadata=replace(group.metadata, owner_references=(owner,))), pods)])
    stage.session()
    stage.delete("a", PodGroup)
    stage.delete("a-0")
    stage.session(2)
    told = DeletedJob(job="default/a", owner="Job default/train", phase="Running", tasks={"Running": 1})
    assert [account.gone for account in stage.accounts] == [(), (told,), ()]


def test_group_deleted_during_failing_sessions_is_in_the_next_account() -> None:
    class Raises(Action):
        name = "raises"
        raising = False

        def run(self, session: Session) -> Iterator[None]:
            if Raises.raising:
                raise ZeroDivisionError("no")
            yield

    one = CONFIGURATION.replace("backfill", "raises")
    stage = staged(configuration=one, gangs=[make_gang("a", 1)], classes=[Raises]).session()
    stage.delete("a", PodGroup)
    stage.delete("a-0")
    Raises.raising = True
    with pytest.raises(PluginError):
        stage.session()
    Raises.raising = False
    stage.session()
    assert [[gone.job for gone in account.gone] for account in stage.accounts] == [[], [], ["default/a"]]


def test_queue_status_has_allocated_resources() -> None:
    stage = staged(queues=[make_queue("q")], gangs=[make_gang("a", 2, queue="q")]).session(2)
    queue = stage.objects[Queue, "q"]
    assert isinstance(queue, Queue)
    assert (queue.status.running, queue.status.allocated["cpu"]) == (1, "2")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (make_group("a", queue="nowhere"), "there is no queue 'nowhere'"),
        (make_group("a", minimum=3), "NotEnoughTasks"),
    ],
    ids=["queue", "tasks"],
)
def test_unschedulable_job_has_a_message(group: PodGroup, message: str) -> None:
    stage = staged(gangs=[(group, [make_task("a-0", "a")])]).session()
    written = stage.objects[PodGroup, "a"]
    assert isinstance(written, PodGroup)
    (condition,) = written.status.conditions
    assert message in f"{condition.reason} {condition.message}"
    assert stage.bound == {}


def test_pod_without_group_is_not_scheduled() -> None:
    stage = staged(objects=[make_task("lost", "")]).session()
    assert (stage.bound, stage.conditions) == ({}, {})


def test_core_preemption_is_not_available() -> None:
    with pytest.raises(RuntimeError, match="the actions preempt and reclaim do"):
        _ = staged().engine.preemption
