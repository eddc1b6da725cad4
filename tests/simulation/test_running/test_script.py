"""A script changes the cluster at its times, and keeps a simulation going until its last action."""

from __future__ import annotations

import asyncio
from functools import partial

from kframework.in_memory.cluster import MemoryCluster
from kframework.simulation.controllers import STANDARD_CONTROLLERS
from kframework.simulation.running import Script, TimedAction
from kframework.simulation.simulation import Simulation
from kframework.testing import create, make_node, make_pod


def simulation(*actions: TimedAction) -> Simulation:
    return Simulation([], controllers=[*STANDARD_CONTROLLERS, partial(Script, actions=actions)])


def test_actions_run_in_the_order_of_their_times() -> None:
    seen: list[tuple[str, float]] = []

    def note(name: str, cluster: MemoryCluster) -> None:
        seen.append((name, asyncio.get_running_loop().time()))

    with simulation((9.0, partial(note, "last")), (0.0, partial(note, "first")), (9.0, partial(note, "end"))) as run:
        assert run.run().seconds == 9.0
    assert seen == [("first", 0.0), ("last", 9.0), ("end", 9.0)]


def test_action_at_zero_runs_before_the_scheduler_lists_the_cluster() -> None:
    with simulation((0.0, create(make_node("a"))), (0.0, create(make_pod("web")))) as run:
        decision = run.step()
    assert decision is not None and decision.node == "a"


def test_coroutine_is_awaited_before_the_next_action() -> None:
    seen: list[float] = []

    async def wait(cluster: MemoryCluster) -> None:
        await asyncio.sleep(5.0)

    def note(cluster: MemoryCluster) -> None:
        seen.append(asyncio.get_running_loop().time())

    with simulation((1.0, wait), (2.0, note)) as run:
        run.run()
    assert seen == [6.0]
