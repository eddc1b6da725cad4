"""Explanations, their text and the metrics show the sources that plugins use beside the cluster."""

from __future__ import annotations

import math

import pytest

from kframework.core.runtime.registry import Registry
from kframework.core.sources import SourceStatus, source_status
from kframework.explain.explanation import WakeEvents
from kframework.explain.text import format_explanation
from kframework.observe.metrics.engine_metrics import engine_series
from kframework.state.inbox import SourceChanged, SourceFailed
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene
from tests.extension_points.scripted import alone
from tests.observe.metrics.exposition import samples, text
from tests.support.source_plugins import busy_plugin

FETCHES = 'kframework_source_fetches_total{plugin="Load",profile="default-scheduler",result="%s",source="load"}'
KEY = "default-scheduler/Load/load"


def scene(**options: object) -> Scene:
    load = busy_plugin(**options)  # type: ignore[arg-type]  # the options of a source
    return Scene(make_node("a"), make_pod("web"), configuration=alone(load), registry=Registry.with_plugins(load))


def heard(world: Scene, *messages: SourceChanged | SourceFailed) -> Scene:
    for message in messages:
        world.engine.offer(message)
    return world.settle()


def told(world: Scene, value: float = 0.9) -> SourceChanged:
    return SourceChanged(KEY, world.time, {"a": value})


def shown(world: Scene) -> SourceStatus:
    (found,) = source_status(world.engine.profiles["default-scheduler"], world.time)
    return found


def test_source_status_shows_absent_fresh_and_stale_data() -> None:
    world = scene(stale_after=60, when_stale="ignore")
    heard(world, SourceFailed(KEY, "ConnectionError: no route"))
    absent = SourceStatus("Load", "load", "node", 0, None, 60, False, "ignore", "ConnectionError: no route")
    assert shown(world) == absent
    heard(world, told(world))
    world.time += 12
    assert shown(world) == SourceStatus("Load", "load", "node", 1, 12, 60, True, "ignore")
    world.time += 60
    world.engine.apply_messages()
    assert shown(world) == SourceStatus("Load", "load", "node", 1, 72, 60, False, "ignore")
    assert shown(scene(stale_after=math.inf)).stale_after is None


def test_explanation_lists_sources_and_names_the_one_that_requeues() -> None:
    world = scene()
    explanation = heard(world, told(world)).explain("web")
    assert explanation.sources == (shown(world),)
    assert explanation.waiting is not None
    assert explanation.waiting.wakers == (WakeEvents("Load", {"source load": ("update",)}),)


@pytest.mark.parametrize(
    ("messages", "seconds", "said"),
    [
        (0, 0, "  Load: source load has no data yet: it took too long\n"),
        (1, 12, "  Load: source load has 1 node, updated 12s ago\n"),
        (1, 75, "  Load: source load is stale: it has 1 node, last updated 1m15s ago\n"),
    ],
)
def test_explanation_text_shows_the_age_of_data(messages: int, seconds: float, said: str) -> None:
    world = scene()
    heard(world, told(world) if messages else SourceFailed(KEY, "it took too long"))
    world.time += seconds
    world.engine.apply_messages()
    assert f"OUTSIDE DATA that plugins use:\n{said}" in format_explanation(world.explain("web"))


def test_metrics_count_sources() -> None:
    world = scene()

    labels = '{plugin="Load",profile="default-scheduler",source="load"'
    assert {name for name in samples(text(engine_series(world.engine))) if "source" in name} == {
        f"kframework_source_values{labels}}}",
        f"kframework_source_fresh{labels}}}",
        FETCHES % "success",
        FETCHES % "error",
    }
    heard(world, told(world), SourceFailed(KEY, "no"), SourceFailed(KEY, "no"))
    world.time += 30
    values = samples(text(engine_series(world.engine)))
    assert values[f"kframework_source_age_seconds{labels}}}"] == 30
    assert values[f"kframework_source_values{labels}}}"] == values[f"kframework_source_fresh{labels}}}"] == 1
    assert (values[FETCHES % "success"], values[FETCHES % "error"]) == (1, 2)
