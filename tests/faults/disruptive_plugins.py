"""Plugins that keep pods waiting, meddle from outside their hooks as plugins may, and raise."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import ClassVar

from kframework import CycleState, Handle, PendingPod, Plugin, PluginArgs, Wait, hookimpl

__all__ = ["RandomErrors", "RandomPermit", "SecondPermit"]


class RandomPermit(Plugin):
    """Let one pod in four wait until it says yes, says no, or the time runs out."""

    name = "RandomPermit"
    patience: ClassVar[float] = 6.0

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._later = Random(self.name)

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        if sum(pod.name.encode()) % 4:
            return None
        self.handle.spawn(self._answer(pod.uid, self._later.uniform(0.0, 8.0)))
        return Wait(self.patience)

    async def _answer(self, uid: str, pause: float) -> None:
        await asyncio.sleep(pause)
        waiting = self.handle.waiting_pod(uid)
        if waiting is not None and self._later.random() < 0.7:
            waiting.allow(self.name)
        elif waiting is not None:
            waiting.reject(self.name, "second thoughts")
        await asyncio.sleep(pause)
        self._meddle()

    def _meddle(self) -> None:
        pending, nodes = sorted(self.handle.pending), sorted(node.name for node in self.handle.nodes)
        if pending:
            pod = self.handle.pending[self._later.choice(pending)]
            self.handle.activate([pod])
            if nodes and self._later.random() < 0.3:
                self.handle.nominate(pod, self._later.choice(nodes))
        self.handle.invalidate(*nodes[:2])


class SecondPermit(RandomPermit):
    """Do the same, for other reasons: some pods wait for both."""

    name = "SecondPermit"
    patience = 7.0


class RandomErrors(Plugin):
    """Raise now and then, where a pod has a node already; in a replay at the same moments."""

    name = "RandomErrors"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.raised: Counter[str] = Counter()

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._raise_sometimes("reserve", pod)

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self._raise_sometimes("pre_bind", pod)

    def _raise_sometimes(self, hook: str, pod: PendingPod) -> None:
        if Random(f"{hook}/{pod.uid}/{self.handle.clock.now()}").random() < 0.03:
            self.raised[f"plugin raised in {hook}"] += 1
            raise ValueError("no")
