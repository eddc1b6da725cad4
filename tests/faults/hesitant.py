"""A plugin that keeps pods waiting, and meddles from outside its hooks as plugins may."""

from __future__ import annotations

import asyncio
from random import Random
from typing import ClassVar

from kframework import CycleState, Handle, PendingPod, Plugin, PluginArgs, Wait, hookimpl

__all__ = ["Hesitant", "Reluctant"]


class Hesitant(Plugin):
    """Let one pod in four wait until it says yes, says no, or the time runs out."""

    name = "Hesitant"
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
        self.handle.touch(*nodes[:2])


class Reluctant(Hesitant):
    """Do the same, for other reasons: some pods wait for both."""

    name = "Reluctant"
    patience = 7.0
