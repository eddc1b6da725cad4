"""A wait on Permit: allowed by another pod's hook, allowed or rejected from a spawned task, out of time, preempted."""

from __future__ import annotations

import asyncio

from kframework import CycleState, PendingPod, Wait, hookimpl
from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import Stage, this_loop

__all__ = ["permit"]


class Refused(Exception):
    """Raised when the service rejects a pod."""


class Approval(Reserving):
    """Let pods wait until they are allowed or rejected, 5 s pass, or a key comes by."""

    name = "Approval"
    patience = 5.0

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        if pod.name == "key":
            for waiting in self.handle.waiting_pods():
                waiting.allow(self.name)
            return None
        self.handle.spawn(self._ask(pod))
        return Wait(self.patience)

    async def _ask(self, pod: PendingPod) -> None:
        allowed = True
        try:
            async with asyncio.timeout(self.patience):
                await this_loop().come(f"approver {pod.name}", f"yes to {pod.name}", (f"no to {pod.name}", Refused()))
        except Refused:
            allowed = False
        except TimeoutError:
            pass
        waiting = self.handle.waiting_pod(pod.uid)
        if waiting is not None and allowed:
            waiting.allow(self.name)
        elif waiting is not None:
            waiting.reject(self.name, "no")


async def permit() -> list[str]:
    """Let two pods wait; one is deleted, a third pod allows them, a fourth takes a waiting pod's place."""
    stage = Stage([make_node("a", cpu=2), make_pod("one", cpu=1), make_pod("two", cpu=1)], [Approval])
    store = stage.store
    stage.act(("key is created", lambda: store.add(make_pod("key", cpu="100m"))), who="a user")
    stage.act(("one is deleted", lambda: store.remove(Pod, "one")), who="another user")
    stage.act(("boss is created", lambda: store.add(make_pod("boss", cpu="1500m", priority=100))), who="a third user")
    return await stage.run(stage.lost, lambda: unbalanced(stage))
