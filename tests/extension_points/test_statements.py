"""What becomes of a what-if that a plugin leaves open."""

from __future__ import annotations

import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario


class Leaky(Plugin):
    """Opens a statement, puts the pod on the node in it, and raises."""

    name = "Leaky"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        if pod.name != "victim":
            return None
        self.handle.statement().add(pod, node.name)
        raise RuntimeError("forgot to close")


def test_open_statement_is_rolled_back_before_the_next_hook(caplog: pytest.LogCaptureFixture) -> None:
    nodes = [make_node("only", cpu=1)]
    pods = [make_pod("victim", cpu="600m", priority=1), make_pod("other", cpu="600m")]
    result = Scenario(nodes=nodes, pods=pods, plugins=[Leaky]).run(until=0.5)
    assert result.node_of("other") == "only"
    assert "left a statement open" in caplog.text
