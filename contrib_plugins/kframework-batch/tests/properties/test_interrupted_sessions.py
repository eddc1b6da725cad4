"""Sessions that are broken off anywhere: what was committed stays, nothing else has happened, and others follow."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

import pytest
from kframework_batch.task_status import TaskStatus

from kframework.engine import Upserted
from tests.support.scale import seeds

#: A World of conftest.py, which tests cannot import.
World: TypeAlias = Any


class Picture(NamedTuple):
    """Where all tasks stand, and what nodes, jobs and statements say."""

    tasks: dict[str, tuple[TaskStatus, str]]
    requested: dict[str, dict[str, int]]
    allocated: dict[str, dict[str, int]]
    pods: dict[str, str]


def picture(world: World) -> Picture:
    engine, nodes = world.engine, world.engine.cluster.nodes
    assert not engine.cluster.statements
    return Picture(
        {task.name: (task.status, task.node_name) for task in engine.cache.tasks.values()},
        {
            nodes[row].name: positive({name: column.cells[row] for name, column in nodes.requesteds.items()})
            for row in nodes.order.tolist()
        },
        {uid: positive(job.allocated) for uid, job in engine.cache.jobs.items()},
        {pod.name: pod.node_name for pod in engine.cluster.pods.values()},
    )


def positive(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def begin(world: World) -> None:
    """Let it be time for a session, with something new."""
    world.time += 1.0
    world.engine.offer(Upserted(world._touched_queue()))


def play(make_world: Callable[[int], World], seed: int, sessions: int) -> World:
    world = make_world(seed)
    for _ in range(sessions):
        world.session()
        world.happen()
    world.engine.apply_messages()
    return world


def steps_of(world: World) -> int:
    """Run a session to its end and count its steps."""
    begin(world)
    steps = 0
    while world.engine.step():
        steps += 1
    world.engine.apply_messages()
    return steps


@pytest.mark.parametrize("seed", seeds())
def test_interrupted_session_keeps_only_what_was_committed(seed: int, make_world: Callable[[int], World]) -> None:
    random = Random(seed)
    played = random.randint(0, 5)
    whole = play(make_world, seed, played)
    done = len(whole.log)
    steps = steps_of(whole)
    for broken_at in sorted({0, 1, steps - 1, *(random.randint(0, steps) for _ in range(3))}):
        world = play(make_world, seed, played)
        before = picture(world)
        begin(world)
        for _ in range(broken_at):
            assert world.engine.step()
        # Nothing may arrive while a session is open: what its bindings come to waits in the inbox.
        committed = world.log[done:]
        assert committed == whole.log[done:][: len(committed)], "until then it was the same session"
        if world.engine._steps is not None:
            world.engine._steps.close()
        check(world, before, picture(world), committed)
        world.engine.apply_messages()
        assert not [task for task in world.engine.cache.tasks.values() if task.status in SUPPOSED]
        for _ in range(2):
            world.happen()
            world.session()


SUPPOSED = (TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


def check(world: World, before: Picture, after: Picture, committed: list[tuple[str, str, str]]) -> None:
    """Add to what was before what was committed: that is what there is."""
    tasks, pods = dict(before.tasks), dict(before.pods)
    requested = {node: dict(amounts) for node, amounts in before.requested.items()}
    allocated = {uid: dict(amounts) for uid, amounts in before.allocated.items()}
    for what, name, node in committed:
        task = world.task(name)
        if what == "bind":
            tasks[name], pods[name] = (TaskStatus.BINDING, node), node
            add(requested[node], {**task.request, "pods": 1}, 1)
            add(allocated[task.job.uid], task.request, 1)
        else:
            tasks[name] = (TaskStatus.RELEASING, tasks[name][1])
            add(allocated[task.job.uid], task.request, -1)
    assert after.tasks == tasks
    assert after.pods == pods
    assert after.requested == {node: positive(amounts) for node, amounts in requested.items()}
    assert after.allocated == {uid: positive(amounts) for uid, amounts in allocated.items()}


def add(amounts: dict[str, int], more: dict[str, int], sign: int) -> None:
    for name, amount in more.items():
        amounts[name] = amounts.get(name, 0) + sign * amount
