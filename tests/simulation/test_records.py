"""The tables of a simulation have the columns that tell most."""

from __future__ import annotations

import kframework
from kframework.testing import make_node, make_pod


def test_tables_show_seconds_since_the_start() -> None:
    simulation = kframework.simulate([make_node("a"), make_node("b"), make_pod("pod")])
    assert repr(simulation.outcomes).split("\n")[0].split() == ["POD", "NODE", "STATUS", "ATTEMPTS", "MESSAGE"]
    (decision,) = repr(simulation.decisions).split("\n")[1:]
    assert decision.split()[:4] == ["1", "0.00", "default/pod", "scheduled"]
    (binding,) = repr(simulation.bindings).split("\n")[1:]
    assert binding.split()[2] == "default/pod" and binding.split()[-1] == "SUCCESS"
