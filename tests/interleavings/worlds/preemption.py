"""A preemption: evictions and their answers, victims that end late, nominations, a higher pod that comes by."""

from __future__ import annotations

from kframework.objects import LabelSelector, ObjectMeta, Pod, PodDisruptionBudget
from kframework.objects.workloads import PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from kframework.testing import make_node, make_pod
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import Stage

__all__ = ["preemption"]


async def preemption() -> list[str]:
    """Let two pods preempt others, the higher one after the other; another client deletes a victim meanwhile."""
    stage = Stage(
        [
            make_node("a", cpu=2),
            make_node("b", cpu=2),
            make_pod("low", cpu=1, node_name="a"),
            make_pod("guarded", cpu=1, node_name="a", labels={"app": "guarded"}),
            make_pod("middle", cpu=2, node_name="b", priority=50),
            make_pod("high", cpu=2, priority=100),
            _budget("guarded"),
        ],
        [Reserving],
        at_once=("record_event",),
    )
    store = stage.store
    stage.act(("higher is created", lambda: store.add(make_pod("higher", cpu=2, priority=1000))), who="a user")
    stage.act(("low is deleted", lambda: store.remove(Pod, "low", grace=0)), who="another user")
    stage.act(("high is deleted", lambda: store.remove(Pod, "high", grace=0)), who="a third user")
    return await stage.run(stage.lost, lambda: unbalanced(stage))


def _budget(app: str) -> PodDisruptionBudget:
    """Make a budget that allows no eviction: preemption heeds it where it can."""
    selector = LabelSelector(match_labels={"app": app})
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=0),
    )
