"""A scenario lets a source speak, fail and fall silent on virtual time."""

from __future__ import annotations

import pytest

from kframework.testing import Scenario, SourceScript, make_node, make_pod
from tests.support.outside import busy_plugin


def world() -> Scenario:
    return Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[busy_plugin(stale_after=50)])


def bound_after(scenario: Scenario) -> float:
    return scenario.run(until=300).decisions_on("web")[-1].popped_at - 1767225600.0


def test_the_same_scenario_ends_the_same_way_twice() -> None:
    scenario = world()
    load = scenario.source("Load", "load", {"a": 0.9})
    scenario.at(25, load.publish({"a": 0.1}))
    assert [bound_after(scenario), bound_after(scenario)] == [25.0, 25.0]


def test_what_is_told_is_told_again_so_that_it_stays_fresh() -> None:
    scenario = world()
    scenario.source("Load", "load", {"a": 0.1})
    (source,) = scenario.run(until=200).plugins["Load"].handle.sources.values()
    assert (source.fresh, source.updates) == (True, 20)


def test_silence_makes_it_stale_and_a_failure_says_why() -> None:
    scenario = world()
    load = scenario.source("Load", "load", {"a": 0.1})
    scenario.at(10, load.stop_publishing()).at(100, load.fail("no route"))
    (source,) = scenario.run(until=120).plugins["Load"].handle.sources.values()
    assert (source.fresh, source.error, dict(source)) == (False, "ConnectionError: no route", {"a": 0.1})


def test_it_recovers_when_it_is_asked_again() -> None:
    scenario = world()
    load = scenario.source("Load", "load")
    scenario.at(20, load.fail("no route")).at(22.5, load.publish({"a": 0.1}))
    assert bound_after(scenario) == 23.0


def test_a_source_that_nobody_declares_is_refused() -> None:
    scenario = world()
    scenario.source("Load", "laod", {})
    with pytest.raises(ValueError, match="no plugin declares the source Load/laod; declared: Load/load"):
        scenario.run()


def test_it_shows_what_it_says() -> None:
    assert repr(SourceScript("Load", "load")) == "<SourceScript Load/load: None>"
