"""Victims: the order in which they go, and that no more go than must."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from random import Random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kframework_batch.action import Action
from kframework_batch.actions.victim_selection import in_victim_order, minimal_victims
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.session import JobStatement, Session
from kframework_batch.testing import Gang, Stage, make_group, make_node, make_queue, make_task

from kframework.objects import ObjectMeta, PriorityClass


class Ask(Action):
    """Orders all tasks as victims of queue q0."""

    name = "ask"
    tasks: list[TaskInfo]
    ordered: list[TaskInfo]

    def run(self, session: Session) -> Iterator[None]:
        tasks = [task for job in session.jobs.values() for task in job.tasks.values()]
        Random(0).shuffle(tasks)
        Ask.tasks = tasks
        Ask.ordered = in_victim_order(session, tasks, session.queues["q0"])
        yield


class Grades(BatchPlugin):
    """Queues by the number in their name."""

    name = "grades"

    @hookimpl
    def queue_order(self, session: Session, queue: QueueInfo) -> int:
        return int(queue.name[1:])


class Neighbours(BatchPlugin):
    """Odd queues are the first to go."""

    name = "neighbours"

    @hookimpl
    def victim_queue_order(self, session: Session, queue: QueueInfo, preemptor: QueueInfo) -> bool:
        return int(queue.name[1:]) % 2 == 0


def pairwise(odd_first: bool) -> Callable[[TaskInfo, TaskInfo], int]:
    """Compare two tasks as volcano does, by the plugins above: negative if the first is the first to go."""

    def compare(left: TaskInfo, right: TaskInfo) -> int:
        if left.job is right.job:
            return right_first(left, right, lambda task: (-task.priority, task.uid))
        if left.job.queue == right.job.queue:
            return right_first(left, right, lambda task: (-task.job.priority, task.job.created, task.job.uid))
        numbers = [int(task.job.queue[1:]) for task in (left, right)]
        if odd_first and numbers[0] % 2 != numbers[1] % 2:
            return -1 if numbers[0] % 2 else 1
        return numbers[1] - numbers[0]

    return compare


def right_first(left: TaskInfo, right: TaskInfo, key: Callable[[TaskInfo], tuple[object, ...]]) -> int:
    """The inverse of an order: who is the last there is the first here."""
    return -1 if cast("tuple[int, ...]", key(left)) > cast("tuple[int, ...]", key(right)) else 1


@st.composite
def any_jobs(draw: st.DrawFn) -> list[Gang]:
    jobs = []
    for n in range(draw(st.integers(1, 5))):
        queue, priority_class = f"q{draw(st.integers(0, 3))}", draw(st.sampled_from(["", "p1", "p2"]))
        group = make_group(f"j{n}", queue=queue, priority_class=priority_class, age=draw(st.integers(0, 2)))
        jobs.append(
            (
                group,
                [
                    make_task(f"j{n}-{task}", f"j{n}", priority=draw(st.integers(0, 2)), node="n1", cpu="1m")
                    for task in range(draw(st.integers(1, 4)))
                ],
            )
        )
    return jobs


@pytest.mark.parametrize("odd_first", [False, True], ids=["as queues go", "victim_queue_order"])
@settings(max_examples=25, deadline=None)
@given(any_jobs())
def test_victim_order_equals_pairwise_comparison(odd_first: bool, jobs: list[Gang]) -> None:
    more = "  - name: neighbours\n" if odd_first else ""
    Stage(
        f"actions: ask\ntiers:\n- plugins:\n  - name: priority\n  - name: grades\n{more}",
        nodes=[make_node("n1")],
        queues=[make_queue(f"q{n}") for n in range(4)],
        gangs=jobs,
        objects=[PriorityClass(metadata=ObjectMeta(name=f"p{n}"), value=n) for n in (1, 2)],
        classes=[Ask, Grades, Neighbours],
    ).session()
    expected = sorted(Ask.tasks, key=cmp_to_key(pairwise(odd_first)))
    assert [task.name for task in Ask.ordered] == [task.name for task in expected]


class Books:
    """A stub of statements: the tasks evicted from the node."""

    def __init__(self, outer: Books | None = None) -> None:
        self.outer = outer
        self.gone: list[int] = [] if outer is None else outer.gone
        self.mine: list[int] = []

    def statement(self) -> Books:
        return Books(self)

    def evict(self, victim: int, reason: str) -> None:
        self.gone.append(victim)
        self.mine.append(victim)

    def __enter__(self) -> Books:
        return self

    def __exit__(self, *error: object) -> None:
        for victim in reversed(self.mine):
            assert self.gone.pop() == victim


def choose(sizes: Sequence[Sequence[int]], wanted: Sequence[int]) -> list[int] | None:
    """Choose among victims of these sizes, each an amount of several resources; return their places."""
    books = Books()

    def enough() -> bool:
        return all(sum(sizes[place][kind] for place in books.gone) >= amount for kind, amount in enumerate(wanted))

    chosen = minimal_victims(cast("JobStatement", books), cast("Sequence[TaskInfo]", range(len(sizes))), enough, "test")
    assert books.gone == []
    return cast("list[int] | None", chosen)


@pytest.mark.parametrize(
    ("sizes", "wanted", "chosen"),
    [
        pytest.param([[1], [1], [1]], [2], [0, 1], id="the first that are enough"),
        pytest.param([[1], [1], [4]], [4], [2], id="the last makes the others superfluous"),
        pytest.param([[3], [1], [4]], [5], [0, 2], id="the last to go is the first to be kept"),
        pytest.param([[1, 0], [0, 1], [2, 2]], [1, 1], [0, 1], id="several resources"),
        pytest.param([[1], [1]], [3], None, id="not enough"),
        pytest.param([[1], [1]], [0], [], id="nobody has to go"),
        pytest.param([], [1], None, id="nobody there"),
    ],
)
def test_victims_are_chosen_in_order(sizes: list[list[int]], wanted: list[int], chosen: list[int] | None) -> None:
    assert choose(sizes, wanted) == chosen


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=7), st.tuples(*[st.integers(0, 9)] * 2))
def test_no_victim_is_unneeded(sizes: list[tuple[int, int]], wanted: tuple[int, int]) -> None:
    def enough(places: Sequence[int]) -> bool:
        return all(sum(sizes[place][kind] for place in places) >= amount for kind, amount in enumerate(wanted))

    chosen = choose(sizes, wanted)
    if chosen is None:
        assert not enough(range(len(sizes)))
        return
    assert enough(chosen)
    assert chosen == sorted(chosen)
    assert not any(enough([other for other in chosen if other != victim]) for victim in chosen)
