"""A pod that is nominated to a node keeps room there; when it keeps less, those that it kept out are woken.

And when a nomination is written, and when it is cleared.
"""

from __future__ import annotations

import asyncio

import pytest

from kframework import CycleState, PendingPod, Plugin, Skip, Status, Wait, error, unschedulable
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import Pod
from kframework.simulation.running import Action
from kframework.testing import Scenario, create, make_node, make_pod, patch
from tests.extension_points.scripted import plugin, scenario

NODE = make_node("a", cpu=2)
NOMINATED = make_pod("nominated", cpu=1, node_selector={"disk": "ssd"}, nominated_node_name="a", priority=10)
KEPT_OUT = make_pod("kept-out", cpu=2, priority=10)

ELSEWHERE = create(make_node("b", cpu=1, labels={"disk": "ssd"}))
SMALLER = patch(NOMINATED, {"spec": {"containers": [{"name": "main", "resources": {"requests": {"memory": "1Mi"}}}]}})


@pytest.mark.parametrize("happening", [ELSEWHERE, SMALLER], ids=["it goes elsewhere", "it asks for less"])
def test_cleared_nomination_requeues_pods_that_it_kept_out(happening: Action) -> None:
    """Otherwise than in kube-scheduler, which sends no event."""
    scenario = Scenario(nodes=[NODE], pods=[NOMINATED, KEPT_OUT])
    assert scenario.at(50.0, happening).run(until=60.0).node_of("kept-out") == "a"


async def slowly(state: CycleState, pod: PendingPod, node_name: str) -> None:
    await asyncio.sleep(1.0)


async def in_vain(state: CycleState, pod: PendingPod, node_name: str) -> Status:
    await asyncio.sleep(1.0)
    return unschedulable("no")


WORKS = plugin("A", pre_bind=slowly)
SKIPS = plugin("A", pre_bind=slowly, pre_bind_pre_flight=Skip)
WAITS = plugin("A", permit=Wait(0.5))


def written(*plugins: type[Plugin], before: str = "", until: float = 1.2) -> list[str]:
    """List what is written as the pod's nominated node, change by change."""
    seen: list[str] = []

    def watch(cluster: MemoryCluster) -> None:
        cluster.subscribe([Pod], note)

    def note(change: Change) -> None:
        if isinstance(change.old, Pod) and isinstance(change.new, Pod):
            old, new = change.old.status.nominated_node_name, change.new.status.nominated_node_name
            seen.extend([new] if new != old else [])

    pod = make_pod(nominated_node_name=before)
    scenario(*plugins, pods=[pod]).at(0.0, watch).run(until)
    return seen


@pytest.mark.parametrize(
    ("plugins", "before", "nodes"),
    [
        ([], "", []),  # it is bound at once
        ([SKIPS], "", []),
        ([WORKS], "", ["a", ""]),  # the API server clears it with the binding
        ([WORKS], "a", [""]),
        ([WORKS], "gone", ["a", ""]),
        ([WAITS], "", ["a", ""]),  # the wait runs out
        ([plugin("A", pre_bind_pre_flight=error("x"), pre_bind=slowly)], "a", [""]),
        ([plugin("A", pre_bind=in_vain)], "", ["a", ""]),
        ([plugin("A", reserve=unschedulable("no"))], "a", [""]),
        ([plugin("A", permit=unschedulable("no"))], "a", [""]),
        ([plugin("A", filter=error("x"))], "gone", [""]),
        ([plugin("A", filter=unschedulable("no"))], "gone", [""]),
        ([plugin("A", filter=unschedulable("no"), post_filter=None)], "gone", []),
    ],
)
def test_nominated_node_name_is_written_for_slow_bindings_and_cleared_on_failure(
    plugins: list[type[Plugin]], before: str, nodes: list[str]
) -> None:
    assert written(*plugins, before=before) == nodes
