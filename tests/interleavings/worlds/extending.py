"""An extender that is asked which nodes fit, and binds: slow, without an answer, while pods and nodes come and go."""

from __future__ import annotations

import json

from kframework.core.cycle.suspendable import ExtenderError
from kframework.errors import ClusterError
from kframework.objects import Node, Pod
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.testing import make_node, make_pod
from tests.interleavings.reserving_plugin import Reserving, unbalanced
from tests.interleavings.stage import Stage, this_loop

__all__ = ["extending"]


class Line(HttpExtenderTransport):
    """The way to an extender that lets every node pass and binds pods itself."""

    stage: Stage

    def __init__(self) -> None:
        self._asked = 0

    async def start(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """Release nothing."""

    async def send(self, verb: str, request: bytes) -> bytes:
        """Put a request."""
        asked, loop = json.loads(request), this_loop()
        self._asked += 1
        what, lost = f"{verb} ({self._asked})", ExtenderError("no answer")
        await loop.come(what, f"the extender is asked {what}", (f"{what} is lost", lost))
        answer = self._bind(asked) if verb == "bind" else {"NodeNames": asked["NodeNames"]}
        await loop.come(what, f"the extender has answered {what}", (f"the answer to {what} is lost", lost))
        return json.dumps(answer).encode()

    def _bind(self, asked: dict[str, str]) -> dict[str, str]:
        try:
            self.stage.store.assign(asked["PodNamespace"], asked["PodName"], asked["PodUID"], asked["Node"])
        except ClusterError as error:
            return {"Error": str(error)}
        return {}


async def extending() -> list[str]:
    """Ask about two pods; one is deleted meanwhile, and a node goes with its pods and comes back."""
    line = Line()
    pods = make_pod("one", cpu="700m"), make_pod("two", cpu="700m")
    stage = Stage([make_node("a", cpu=1), make_node("b", cpu=1), *pods], [Reserving], line=line)
    line.stage, store = stage, stage.store
    stage.act(("one is deleted", lambda: store.remove(Pod, "one", grace=0)), who="a user")
    stage.act(
        ("node a is deleted", lambda: store.remove(Node, "a")),
        ("its pods are collected", lambda: stage.collect("a")),
        ("node a is back", lambda: store.add(make_node("a", cpu=1))),
        who="the cloud",
    )
    return await stage.run(stage.lost, lambda: unbalanced(stage))
