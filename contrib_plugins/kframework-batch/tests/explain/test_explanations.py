"""What is said of jobs and their tasks; and that what is said to help does, when it is really done."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.explain.explanation import JobExplanation, format_explanation
from kframework_batch.explain.history import find_job
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import ObjectMeta, Pod, PriorityClass
from kframework.scheduler.cooperative import run_to_end

FAIR = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""
RECLAIMING = FAIR.replace("backfill", "backfill, reclaim")
PLAIN = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}]
"""


def explained(stage: Stage, name: str) -> JobExplanation:
    found = find_job(stage.engine, "default", name)
    assert found is not None
    return run_to_end(explain_steps(stage.engine, stage.accounts[::-1], *found))


def text(stage: Stage, name: str, *, wide: bool = False) -> str:
    return format_explanation(explained(stage, name), wide=wide)


def half_a_gang() -> Stage:
    return Stage(PLAIN, nodes=[make_node("n1", cpu=2)], gangs=[make_gang("train", 4)]).session()


def two_queues() -> Stage:
    return Stage(
        FAIR,
        nodes=[make_node("n1", cpu=4)],
        queues=[make_queue("a"), make_queue("b", weight=3)],
        gangs=[
            make_gang("greedy", 2, queue="a", on=["n1", "n1"]),
            make_gang("more", 1, queue="a"),
            make_gang("other", 4, queue="b"),
        ],
    ).session(2)


def protected() -> Stage:
    return Stage(
        PLAIN,
        nodes=[make_node("n1", cpu=2)],
        gangs=[
            make_gang("gang", 2, on=["n1", "n1"], priority=0),
            make_gang("urgent", 1, priority=100, priority_class="high"),
        ],
        objects=[PriorityClass(metadata=ObjectMeta(name="high"), value=100)],
    ).session()


@pytest.mark.parametrize(
    ("make", "name", "lines"),
    [
        pytest.param(
            half_a_gang,
            "train",
            [
                "Gang:      0 have room of the 4 that are needed",
                "  - allocate: discarded; 2 of the 4 tasks that it needs had a place",
                " had room on n1, the only node that fitted",
                ": 0/1 nodes are available: 1 Insufficient cpu.",
                "TASKS: 4 Pending.",
                "WHAT WOULD HELP, each by itself; it was tried:",
                "  - set minAvailable to 2, now 4",
                "  - add cpu 2, as tried on node n1",
            ],
            id="half a gang",
        ),
        pytest.param(
            half_a_gang,
            "train-3",
            ["Pod:       default/train-3", "Status:    Pending"],
            id="a task of it",
        ),
        pytest.param(
            two_queues,
            "more",
            [
                "QUEUE a, weight 1, number 2 of 3 when the session began:",
                "  - its share, by plugin proportion: cpu 1",
                "  - over its share by cpu 1",
                "  - allocate: skipped; plugin proportion: queue a already holds its share",
                "  - raise the weight of queue a to 10, now 1",
            ],
            id="an overused queue",
        ),
        pytest.param(
            protected,
            "urgent",
            ["      plugin gang protects default/gang-0, default/gang-1"],
            id="victims that are protected",
        ),
    ],
)
def test_explanation_has_its_text(make: Callable[[], Stage], name: str, lines: list[str]) -> None:
    said = text(make(), name)
    for line in lines:
        assert f"{line}\n" in said, said


def test_explanation_of_served_job_has_the_session_that_served_it() -> None:
    stage = Stage(PLAIN, nodes=[make_node("n1", cpu=4)], gangs=[make_gang("train", 2)]).session(3)
    said = text(stage, "train", wide=True)
    assert "  - allocate: served; 2 of the 2 tasks that it needs had a place" in said
    assert "default/train-1  Running  n1" in said
    assert "HELP" not in said


def test_discarded_evictions_are_not_reported_as_done() -> None:
    stage = Stage(
        PLAIN,
        nodes=[make_node("n1", cpu=2)],
        gangs=[
            make_gang("low", 2, minimum=1, on=["n1", "n1"], priority=0),
            make_gang("urgent", 3, minimum=3, priority=100, priority_class="high"),
        ],
        objects=[PriorityClass(metadata=ObjectMeta(name="high"), value=100)],
    ).session()
    said = text(stage, "urgent")
    assert stage.evicted == {}
    assert "was promised room on n1" in said
    assert "for it would have had to go: default/low-" in said


def test_turn_without_new_tasks_is_not_reported_as_served() -> None:
    stage = Stage(PLAIN, nodes=[make_node("n1", cpu=1)], gangs=[make_gang("train", 2, minimum=1)]).session()
    said = text(stage, "train")
    assert "  - allocate: served; 1 of the 1 tasks that it needs had a place" in said
    assert "  - allocate: got nothing more; 1 of the 1 tasks that it needs had a place" in said


def test_job_served_by_the_next_session_has_no_remedies() -> None:
    stage = half_a_gang()
    stage.put(make_node("n2", cpu=2))
    stage.engine.apply_messages()
    said = text(stage, "train")
    assert "note: if nothing changes, the next session serves it" in said
    assert "HELP" not in said


@pytest.mark.parametrize(
    ("more", "change"), [(0, "add cpu 2"), (1, "add cpu 1")], ids=["none is served", "another one is served"]
)
def test_task_without_room_is_not_served_by_the_next_session(more: int, change: str) -> None:
    stage = Stage(PLAIN, nodes=[make_node("n1", cpu=2)], gangs=[make_gang("train", 4, minimum=1)]).session(2)
    # The next session has room for the first of those that wait.
    stage.put(replace(make_node("n1", cpu=2 + more), metadata=stage.engine.cluster.nodes[0].object.metadata))
    stage.engine.apply_messages()
    last = max(stage.job("train").with_status(TaskStatus.PENDING).values(), key=lambda task: (task.created, task.uid))
    explanation = explained(stage, last.name)
    assert explanation.notes == ()
    assert [remedy.change for remedy in explanation.remedies] == [f"{change}, as tried on node n1"]


def preempting() -> Stage:
    return Stage(
        PLAIN,
        nodes=[make_node("n1", cpu=1)],
        gangs=[
            make_gang("low", 1, minimum=0, on=["n1"], priority=0),
            make_gang("urgent", 1, priority=100, priority_class="high"),
        ],
        objects=[PriorityClass(metadata=ObjectMeta(name="high"), value=100)],
    )


def test_next_session_names_the_victims_of_a_job() -> None:
    stage = preempting()
    stage.engine.apply_messages()
    note = "if nothing changes, it gets room on n1 by evicting default/low-0"
    assert explained(stage, "urgent").notes == (note,)


def test_job_is_not_served_before_its_victims_are_deleted() -> None:
    note = "if nothing changes, it gets room on n1 once terminating pods have gone"
    assert explained(preempting().session(2), "urgent").notes == (note,)


def test_job_that_is_not_admitted_has_remedies() -> None:
    entering = FAIR.replace("[{name: drf}", "[{name: overcommit}, {name: drf}")
    group = make_group("train", minimum=3, phase="Pending", resources={"cpu": 3})
    stage = Stage(entering, nodes=[make_node("n1", cpu=2)], gangs=[(group, [])]).session()
    assert [remedy.change for remedy in explained(stage, "train").remedies] == ["add cpu 1, as tried on node n1"]


class Completed(NamedTuple):
    """How a remedy is brought about: its beginning, and what is done."""

    change: str
    act: Callable[[Stage], None]


def smaller(stage: Stage) -> None:
    group = stage.job("train").object
    assert group is not None
    stage.put(replace(group, spec=replace(group.spec, min_member=2)))


def larger(stage: Stage) -> None:
    stage.put(replace(make_node("n1", cpu=4), metadata=stage.engine.cluster.nodes[0].object.metadata))


@pytest.mark.parametrize(
    "done",
    [Completed("set minAvailable to 2, now 4", smaller), Completed("add cpu 2", larger)],
    ids=lambda done: done.change,
)
def test_remedies_help_the_job(done: Completed) -> None:
    stage = half_a_gang()
    assert any(remedy.change.startswith(done.change) for remedy in explained(stage, "train").remedies)
    done.act(stage)
    stage.session()
    assert {"train-0", "train-1"} <= set(stage.bound)


def test_jobs_and_tasks_are_found_by_name() -> None:
    stage = half_a_gang()
    stage.put(make_task("alone", "other"))
    stage.engine.apply_messages()
    assert find_job(stage.engine, "default", "absent") is None
    assert find_job(stage.engine, "elsewhere", "train") is None
    found = find_job(stage.engine, "default", "alone")
    assert found is not None and found[1] is not None
    assert "there is no pod group of this name" in text(stage, "alone")


def test_names_are_escaped_for_the_terminal() -> None:
    gang: Gang = make_gang("train", 2)
    evil = replace(gang[1][0], metadata=replace(gang[1][0].metadata, name="a\x1b[31mb"))
    stage = Stage(PLAIN, nodes=[make_node("n1", cpu=1)], gangs=[(gang[0], [evil, gang[1][1]])]).session()
    assert "\x1b" not in text(stage, "train", wide=True)
    assert stage.objects[Pod, evil.metadata.name]
