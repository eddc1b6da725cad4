"""What the observers of a scheduler receive and show."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from msgspec.structs import replace

from kframework.clock import LoopClock
from kframework.config.load import default_configuration
from kframework.core.cycle.records import Binding, Decision
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Event, Pod, PodSchedulingGroup
from kframework.observe.metrics.attempts import TIMED_SHARE
from kframework.observe.web.sections import Section
from kframework.observe.web.view import EngineView
from kframework.process.http.endpoints import Listener, serve
from kframework.process.observers import Observers, PodObservers, dropped_events
from kframework.scheduler.scheduler import Scheduler
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.support.closed_engine import ClosedEngine


class Another:
    """An observer that sees nothing."""

    def on_decision(self, decision: Decision) -> None:
        pass

    def on_binding(self, binding: Binding) -> None:
        pass


def test_other_observers_are_called_before_history_and_metrics() -> None:
    another = Another()
    observers = PodObservers(another)
    assert observers.all[:3] == (another, observers.history, observers.metrics.attempts)


@pytest.mark.parametrize(("wanted", "timed"), [(0.0, TIMED_SHARE), (1.0, 1.0)])
def test_plugins_are_timed_as_often_as_the_most_curious_wants(wanted: float, timed: float) -> None:
    assert PodObservers(timed_share=wanted).timed_share == timed


@pytest.mark.blocks_loop  # it looks for plugins that are installed
async def test_routes_show_what_they_see() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    scheduler = Scheduler(default_configuration(), MemoryCluster(clock), clock)
    paths = {route.path for route in PodObservers().routes(scheduler)}
    assert {"/", "/explain", "/metrics", "/metrics/resources", "/metrics/slis"} <= paths


class Posted(EngineView[ClosedEngine]):
    """What is written on the door of a closed engine."""

    def sections(self) -> tuple[Section, ...]:
        return (Section.from_rows("days", "Opening days", (), (), 0),)


@pytest.mark.parametrize(
    ("observers", "sections"),
    [(Observers(engine=ClosedEngine), []), (Observers(engine=ClosedEngine, shown=Posted), ["days"])],
)
@pytest.mark.blocks_loop  # it looks for plugins that are installed
async def test_any_engine_has_the_page(observers: Observers[ClosedEngine], sections: list[str]) -> None:
    clock = LoopClock(asyncio.get_running_loop())
    scheduler = Scheduler(
        default_configuration(), MemoryCluster(clock), clock, observers=observers.all, engine=observers.engine
    )
    async with (
        serve(observers.routes(scheduler), Listener(port=0)) as url,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(url) as page:
            assert (page.status, page.content_type) == (200, "text/html")
        async with session.get(f"{url}/view/sections") as answer:
            assert [section["name"] for section in await answer.json()] == sections


async def test_events_that_were_dropped_are_counted_by_the_reason() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    scheduler = Scheduler(default_configuration(), MemoryCluster(clock), clock)
    series = dropped_events(scheduler)
    scheduler.outbox.dropped["queue_full"] += 7
    assert list(series.lines()) == [
        'kframework_dropped_events_total{reason="queue_full"} 7\n',
        'kframework_dropped_events_total{reason="write_failed"} 0\n',
    ]


def member(name: str, cpu: str = "1") -> Pod:
    pod = make_pod(name, cpu=cpu)
    return replace(pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g")))


def test_pods_that_name_a_group_are_reported_once_each() -> None:
    observers, told = PodObservers(), list[str]()
    pods = [member("in"), member("out", cpu="9"), make_pod("alone")]
    with Simulation([make_node("n", cpu="4"), *pods], observers=observers.all) as simulation:
        observers.attach(simulation.scheduler, told.append)
        simulation.run(600)
        events = [each.regarding.name for each in simulation.cluster.objects(Event) if each.reason == "GroupIgnored"]
        assert sorted(events) == ["in", "out"]
        conditions = {
            pod.metadata.name: [each.message for each in pod.status.conditions if each.reason == "FeatureGateDisabled"]
            for pod in simulation.cluster.objects(Pod)
        }
    message = (
        "spec.schedulingGroup is ignored without the feature gate GenericWorkload of Kubernetes 1.37: "
        "the pods of groups are scheduled one by one"
    )
    assert conditions == {"in": [message], "out": [message], "alone": []}
    assert told == [f"{message} (first default/in)"]
