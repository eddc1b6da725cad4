"""Planted races, each of them invisible while all comes in its usual order, are found and reduced to what matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import anyio
import pytest

from kframework import CycleState, PendingPod, hookimpl
from kframework.core.pod_engine import PodEngine
from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.process.lease import LeaderElection
from kframework.scheduler.cluster_api import ClusterApi
from kframework.state.inbox import BindingEnded
from kframework.testing import make_node, make_pod
from tests.interleavings.explorer import World, explore, replay
from tests.interleavings.reserving_plugin import Reserving
from tests.interleavings.stage import Stage, this_loop
from tests.interleavings.worlds.binding import binding
from tests.interleavings.worlds.lease import lease

#: Within so many schedules a planted race is found, and reduced to so few deviations.
SCHEDULES, FEW = 1_000, 4


async def absent_minded(self: ClusterApi, pod: PendingPod) -> str | None:
    """Do not read back what became of a bind without an answer."""
    return None


def hasty(self: PodEngine, ended: BindingEnded) -> None:
    """Forget a pod when its bind is answered, without waiting for the word of the watch."""
    binding_ended(self, ended)
    was = self.cluster.forget(ended.uid)
    if was is not None:
        self.handlers.on_event(ObservedEvent(EventResource.ASSIGNED_POD, ActionType.DELETE, was, None))


async def clinging(self: LeaderElection) -> None:
    """Give the lease up first, and stop to lead afterwards."""
    with anyio.move_on_after(5.0, shield=True):
        if self._tried:
            await self._release()
    await stop(self)


binding_ended, stop = PodEngine._binding_ended, LeaderElection._stop


class Quota(Reserving):
    """Let one pod pass, and await something between the look and the entry."""

    name = "Quota"

    def __init__(self, args: object, handle: object) -> None:
        super().__init__(args, handle)
        self.passed: list[str] = []

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        if not self.passed:
            await this_loop().come(f"quota for {pod.name}", f"there is quota for {pod.name}")
            self.passed.append(pod.name)


async def checked_before() -> list[str]:
    """Let two pods ask for the one place that there is, one after the other."""
    stage = Stage([make_node("a", cpu=2), make_pod("one", cpu=1)], [Quota])
    stage.act(("two is created", lambda: stage.store.add(make_pod("two", cpu=1))))

    def too_many() -> Iterator[str]:
        for _, plugin in stage.scheduler.profiles.plugins():
            if isinstance(plugin, Quota) and len(plugin.passed) > 1:
                yield f"{' and '.join(plugin.passed)} passed"

    return await stage.run(too_many)


@pytest.mark.long
@pytest.mark.parametrize(
    ("world", "owner", "name", "planted", "problem"),
    [
        (binding, ClusterApi, "read_back", absent_minded, "is undone, though it is bound"),
        (binding, PodEngine, "_binding_ended", hasty, "is overcommitted by"),
        (lease, LeaderElection, "_stop", clinging, "starts to lead while"),
    ],
)
def test_planted_race_is_detected(
    world: World,
    owner: type,
    name: str,
    planted: Callable[..., object],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, planted)
    found_with_few_deviations(world, problem)


def test_plugin_that_awaits_between_check_and_act_is_detected() -> None:
    found_with_few_deviations(checked_before, "one and two passed")


def found_with_few_deviations(world: World, problem: str) -> None:
    assert not replay(world, {}).problems, "seen without any exploration"
    failure = explore("planted", world, SCHEDULES, seed=1).failure
    assert failure is not None, "nobody noticed"
    assert problem in str(failure)
    assert 1 <= len(failure.deviations) <= FEW, str(failure)
    again = replay(world, {each.point: each.label for each in failure.deviations})
    assert again.problems == failure.problems
    assert "python -m tests.interleavings --world planted --replay" in str(failure)
