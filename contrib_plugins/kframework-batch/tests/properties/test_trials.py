"""Sessions that are rolled back leave no trace, in random worlds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest
from kframework_batch.account import SessionAccount
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.task_status import TaskStatus
from msgspec.structs import replace

from kframework import PluginError
from kframework.scheduler.cooperative import run_to_end
from tests.support.scale import seeds

SESSIONS = 6

#: A World of conftest.py, which tests cannot import.
World: TypeAlias = Any


def picture(world: World) -> object:
    """Tell where all tasks and sums stand, and what sessions left on jobs."""
    engine, nodes = world.engine, world.engine.cluster.nodes
    assert not engine.cluster.statements
    return (
        {task.uid: (task.status, task.node_name) for task in engine.cache.tasks.values()},
        {
            nodes[row].name: {name: column.cells[row] for name, column in nodes.requesteds.items() if column.cells[row]}
            for row in nodes.order.tolist()
        },
        {
            job.uid: (
                [list(job.with_status(status)) for status in TaskStatus],
                {name: amount for name, amount in job.allocated.items() if amount},
                {name: amount for name, amount in job.requested.items() if amount},
                (
                    job.phase,
                    job.message,
                    dict(job.fit_errors),
                    dict(job.tentative_nodes),
                    job.min_available,
                    job.role_minimums,
                ),
            )
            for job in engine.cache.jobs.values()
        },
        {pod.uid: pod.node_name for pod in engine.cluster.pods.values()},
        {queue.name: (queue.weight, dict(queue.capability), queue.is_open) for queue in engine.cache.queues.values()},
        set(engine.cluster.assumed),
    )


def play(world: World, look: Callable[[World], None]) -> World:
    for _ in range(SESSIONS):
        world.session()
        look(world)
        world.happen()
    world.engine.apply_messages()
    return world


def explain_all(world: World) -> None:
    """Explain every job, and a task of each, and check that nothing has come of it."""
    engine, before = world.engine, picture(world)
    for job in list(engine.cache.jobs.values()):
        for task in (None, *list(job.tasks.values())[:1]):
            with suppress(PluginError):
                run_to_end(explain_steps(engine, world.accounts[::-1], job, task))
            assert picture(world) == before


def told(account: SessionAccount) -> SessionAccount:
    """Leave out what is measured."""
    return replace(account, started=0, parts=(), took=())


@pytest.mark.parametrize("seed", seeds())
def test_explaining_does_not_affect_sessions(make_world: Callable[[int], World], seed: int) -> None:
    explained = play(make_world(seed), explain_all)
    alone = play(make_world(seed), lambda world: None)
    assert explained.log == alone.log
    assert [told(account) for account in explained.accounts] == [told(account) for account in alone.accounts]
    assert picture(explained) == picture(alone)


def test_random_worlds_explain_pending_tasks(make_world: Callable[[int], World]) -> None:
    """The worlds hold what the test above is about."""
    worlds = [play(make_world(seed), lambda world: None) for seed in range(5)]
    assert any(job.with_status(TaskStatus.PENDING) for world in worlds for job in world.engine.cache.jobs.values())
