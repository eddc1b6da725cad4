"""What every session plugin must keep to, those of Volcano and of others: asked about all that are installed.

Both forms of a question agree, signed answers depend on nothing else, keys compare, and books are even again once what
was done is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from kframework_batch.action import Action
from kframework_batch.job import TaskInfo
from kframework_batch.plugin import BatchPlugin
from kframework_batch.program import BatchRegistry
from kframework_batch.session import Session
from kframework_batch.task_status import PREEMPTABLE, TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_node, make_queue, make_task

PLUGINS = sorted(BatchRegistry.with_classes().plugins)

_CONFIGURATION = """
actions: looking
tiers:
- plugins:
  - name: {name}
{others}
"""


def looked_at(name: str, seed: int, look: Callable[[Session, BatchPlugin, Random], None]) -> None:
    """Open a session of a random cluster, with this plugin and those that it takes to ask the core."""
    random = Random(f"{name}/{seed}")

    class Looking(Action):
        name = "looking"

        def run(self, session: Session) -> Iterator[None]:
            (plugin,) = (each for each in session.plugins.tiers.plugins if each.name == asked)
            look(session, plugin, random)
            yield

    asked = name
    others = "\n".join(f"  - name: {other}" for other in ("predicates", "nodeorder") if other != name)
    nodes = [
        make_node(f"n{number}", cpu=random.choice([4, 8]), memory="16Gi", labels={"zone": random.choice("ab")})
        for number in range(6)
    ]
    queues = [
        make_queue("a", weight=3, deserved={"cpu": 8}, capability={"cpu": 20}),
        make_queue("b", guarantee={"cpu": 2}),
        make_queue("default"),
    ]
    stage = Stage(
        _CONFIGURATION.format(name=name, others=others),
        nodes=nodes,
        queues=queues,
        gangs=list(random_gangs(random)),
        classes=[Looking],
    )
    stage.session()


def random_gangs(random: Random) -> Iterator[Gang]:
    for number in range(5):
        on = [f"n{random.randrange(6)}" for _ in range(random.randint(0, 2))]
        queue = random.choice(["a", "b", "default"])
        annotations = {"volcano.sh/sla-waiting-time": "1h"} if random.random() < 0.3 else {}
        resources = {"cpu": random.randint(1, 4)} if random.random() < 0.5 else None
        size = len(on) + random.randint(1, 3)
        yield make_gang(
            f"g{number}",
            size,
            minimum=random.randint(1, size),
            cpu=random.choice([None, 1, 2]),
            queue=queue,
            on=on,
            priority=random.choice([0, 10]),
            age=float(random.randint(0, 100)),
            annotations=annotations,
            resources=resources,
        )
    picky = make_task("picky-0", "picky", node_selector={"zone": "a"})
    yield make_gang("picky", 0)[0], [picky]


def tasks(session: Session, *statuses: TaskStatus) -> list[TaskInfo]:
    found = (task for job in session.jobs.values() for status in statuses for task in job.with_status(status).values())
    return sorted(found, key=lambda task: task.name)


def voice(session: Session) -> object:
    """Return all that the plugins of a session say of jobs, queues and victims."""
    plugins = session.plugins
    running, waiting = tasks(session, *sorted(PREEMPTABLE, key=str)), tasks(session, TaskStatus.PENDING)
    return (
        sorted((plugins.job_key(job), job.uid) for job in session.jobs.values()),
        sorted((plugins.queue_key(queue), queue.name) for queue in session.queues.values()),
        [(queue.name, plugins.overused_by(queue)) for queue in session.queues.values()],
        [
            (task.uid, plugins.allocatable(queue, task), plugins.preemptive(queue, task))
            for task in waiting
            if (queue := session.queues[task.job.queue])
        ],
        [
            (job.uid, plugins.job_ready(job), plugins.job_pipelined(job), plugins.job_starving(job))
            for job in session.jobs.values()
        ],
        [(task.uid, [victim.uid for victim in plugins.preemptable(task, running)]) for task in waiting],
        [(task.uid, [victim.uid for victim in plugins.reclaimable(task, running)]) for task in waiting],
    )


def hook(plugin: BatchPlugin, name: str) -> Callable[..., Any] | None:
    """Return a plugin's hook, if it has it."""
    method = getattr(plugin, name, None)
    return method if hasattr(method, "kframework_batch_impl") else None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLUGINS)
def test_scalar_and_columnar_hooks_agree(name: str, seed: int) -> None:
    def look(session: Session, plugin: BatchPlugin, random: Random) -> None:
        rows = session.nodes.order
        for task in tasks(session, TaskStatus.PENDING):
            one, many = hook(plugin, "predicate"), hook(plugin, "predicate_nodes")
            words = hook(plugin, "predicate_status")
            if one and many and words:
                codes = many(session, task, rows)
                for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
                    said = one(session, task, session.nodes[row])
                    assert (said is None) == (code == 0)
                    assert said is None or words(session, task, code).reasons == said.reasons
            one, many = hook(plugin, "node_order"), hook(plugin, "node_order_nodes")
            if one and many and plugin.sign(session, task) is not None:
                scores = many(session, task, rows)
                assert np.allclose(scores, [one(session, task, session.nodes[row]) for row in rows.tolist()])

    looked_at(name, seed, look)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PLUGINS)
def test_tasks_of_one_signature_and_template_have_equal_answers(name: str, seed: int) -> None:
    def look(session: Session, plugin: BatchPlugin, random: Random) -> None:
        rows = session.nodes.order
        many = hook(plugin, "node_order_nodes")
        known: dict[object, object] = {}
        for task in tasks(session, TaskStatus.PENDING):
            signature = plugin.sign(session, task)
            if signature is not None and many is not None:
                scores = many(session, task, rows).tolist()
                assert known.setdefault((task.pod.template, signature), scores) == scores

    looked_at(name, seed, look)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PLUGINS)
def test_accounts_are_balanced_after_undo(name: str, seed: int) -> None:
    def look(session: Session, plugin: BatchPlugin, random: Random) -> None:
        before = voice(session)
        with session.statement() as statement:
            for task in tasks(session, TaskStatus.PENDING):
                choice = session.placement.choose(task)
                if not isinstance(choice, str) and random.random() < 0.7:
                    place = statement.allocate if choice.idle and random.random() < 0.7 else statement.pipeline
                    place(task, choice.node)
            for task in tasks(session, *sorted(PREEMPTABLE, key=str)):
                if random.random() < 0.5:
                    statement.evict(task, "just so")
            voice(session)
        assert voice(session) == before

    looked_at(name, seed, look)


@pytest.mark.parametrize("name", PLUGINS)
def test_session_leaves_nothing_for_the_next(name: str) -> None:
    """Plugins are kept from session to session: what they say of the same cluster must not change."""
    seen: list[object] = []

    def look(session: Session, plugin: BatchPlugin, random: Random) -> None:
        list(session.plugins.open())
        seen.append(voice(session))
        list(session.plugins.open())
        seen.append(voice(session))

    looked_at(name, 0, look)
    assert seen[0] == seen[1]
