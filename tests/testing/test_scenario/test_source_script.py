"""A scenario lets a source speak, fail and fall silent on virtual time."""

from __future__ import annotations

import pytest

from kframework.testing import Scenario, make_node, make_pod
from tests.support.source_plugins import busy_plugin


def world() -> Scenario:
    return Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[busy_plugin(stale_after=50)])


def bound_after(scenario: Scenario) -> float:
    return scenario.run(until=300).decisions_on("web")[-1].popped_at - 1767225600.0


def test_same_script_has_the_same_result() -> None:
    scenario = world()
    load = scenario.source("Load", "load", {"a": 0.9})
    scenario.at(25, load.publish({"a": 0.1}))
    assert [bound_after(scenario), bound_after(scenario)] == [25.0, 25.0]


def test_published_values_are_repeated_to_stay_fresh() -> None:
    scenario = world()
    scenario.source("Load", "load", {"a": 0.1})
    (source,) = scenario.run(until=200).plugins["Load"].handle.sources.values()
    assert (source.fresh, source.updates) == (True, 20)


def test_source_becomes_stale_and_reports_its_failure() -> None:
    scenario = world()
    load = scenario.source("Load", "load", {"a": 0.1})
    scenario.at(10, load.stop_publishing()).at(100, load.fail("no route"))
    (source,) = scenario.run(until=120).plugins["Load"].handle.sources.values()
    assert (source.fresh, source.error, dict(source)) == (False, "ConnectionError: no route", {"a": 0.1})


def test_source_recovers_at_the_next_fetch() -> None:
    scenario = world()
    load = scenario.source("Load", "load")
    scenario.at(20, load.fail("no route")).at(22.5, load.publish({"a": 0.1}))
    assert bound_after(scenario) == 23.0


def test_undeclared_source_is_rejected() -> None:
    scenario = world()
    scenario.source("Load", "laod", {})
    with pytest.raises(ValueError, match="no plugin declares the source Load/laod; declared: Load/load"):
        scenario.run()
