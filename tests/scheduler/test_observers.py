"""How observers are notified: of records one by one or of whole runs, whatever becomes of the others."""

from __future__ import annotations

import logging

import pytest

from kframework.core.cycle.records import Binding, Decision
from kframework.observe.history import History
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.core.cycle.test_run import Whole


class Fails:
    """An observer that can do nothing."""

    def on_decision(self, decision: Decision) -> None:
        raise ValueError("not this attempt")

    def on_binding(self, binding: Binding) -> None:
        raise ValueError("not this binding")


class OneByOne:
    """An observer that receives no runs."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def on_binding(self, binding: Binding) -> None:
        self.bindings.append(binding)


def test_failing_observer_does_not_affect_scheduling(caplog: pytest.LogCaptureFixture) -> None:
    history = History()
    simulation = Simulation([make_node("a"), make_pod()], observers=[Fails(), history]).run()
    (decision,) = simulation.decisions
    assert history.recent(1) == [decision]
    assert history.binding_for(decision) is not None
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        "observer Fails failed",
        "observer Fails failed",
    ]


def test_run_is_reported_as_a_whole_to_those_who_receive_runs() -> None:
    pods = [make_pod(f"p{number}") for number in range(3)]
    singly, whole = OneByOne(), Whole()
    Simulation([make_node("a"), *pods], observers=[singly, whole]).run()
    assert [len(run) for run in whole.runs] == [len(bound) for bound in whole.bound_runs] == [3]
    assert whole.single == []
    assert singly.decisions == [*whole.runs[0]]
    assert singly.bindings == [*whole.bound_runs[0]]
