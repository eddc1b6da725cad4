"""Whatever is done for an attempt belongs to it, also beside the next ones; between two attempts there is none."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.core.cycle.current_attempt import CURRENT
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Asking}]}}}]
"""


class Asking(Plugin):
    """Note at some points to which attempt they belong."""

    name = "Asking"
    noted: ClassVar[list[tuple[str, str, str | None, int]]] = []

    def note(self, point: str, pod: PendingPod) -> None:
        current = CURRENT.get()
        belongs = (None, 0) if current is None else (current[0].name, current[1])
        self.noted.append((point, pod.name, *belongs))

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> None:
        self.note("pre_enqueue", pod)

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        self.note("filter", pod)
        return unschedulable("no") if pod.name == "never" else None

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(10.0)
        self.note("pre_bind", pod)


def test_work_belongs_to_its_attempt() -> None:
    Asking.noted.clear()
    objects = [make_node("a"), make_pod("first"), make_pod("second"), make_pod("never")]
    Simulation(objects, parse(CONFIGURATION), plugins=[Asking]).run()
    assert Asking.noted[:3] == [("pre_enqueue", name, None, 0) for name in ("first", "second", "never")]
    # Asked twice where remembered answers are verified.
    during = list(dict.fromkeys(entry for entry in Asking.noted if entry[0] in ("filter", "pre_bind")))
    assert all(pod == current for _, pod, current, _ in during)
    assert [entry for entry in during if entry[1] != "never"] == [
        ("filter", "first", "first", 1),
        ("filter", "second", "second", 2),
        ("pre_bind", "first", "first", 1),
        ("pre_bind", "second", "second", 2),
    ]
    assert [entry[3] for entry in during if entry[1] == "never"][:1] == [3]
    assert CURRENT.get() is None
