"""Gauges are what the queue and the cache say when somebody asks."""

from __future__ import annotations

import kframework
from kframework.framework.events import ActionType, EventResource, Occurrence
from kframework.observe.metrics.readings import build_info, engine_readings
from kframework.testing import make_node, make_pod
from tests.observe.metrics.reading import samples, text
from tests.observe.metrics.rig import Rig, ran

CLUSTER = (make_node("a"), make_pod("small"), make_pod("big", cpu=99), make_pod("held", gates=["later"]))


def read_off(rig: Rig) -> dict[str, float]:
    return samples(text(engine_readings(rig.scheduler.engine)))


def test_the_queue_and_the_cache_are_read_off() -> None:
    said = {name: value for name, value in read_off(ran(*CLUSTER)).items() if "inflight" not in name}
    assert said == {
        'scheduler_pending_pods{queue="active"}': 0,
        'scheduler_pending_pods{queue="backoff"}': 0,
        'scheduler_pending_pods{queue="gated"}': 1,
        'scheduler_pending_pods{queue="unschedulable"}': 1,
        'scheduler_queue_incoming_pods_total{event="PodAdd",queue="active"}': 2,
        'scheduler_queue_incoming_pods_total{event="PodAdd",queue="unschedulable"}': 1,
        'scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"}': 1,
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}': 1,
        'scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"}': 1,
        'scheduler_cache_size{type="nodes"}': 1,
        'scheduler_cache_size{type="pods"}': 1,
        'scheduler_cache_size{type="assumed_pods"}': 0,
        'scheduler_goroutines{operation="binding"}': 0,
    }


def test_what_is_kept_for_pods_in_flight_is_counted() -> None:
    async def then(rig: Rig) -> None:
        in_flight = rig.scheduler.engine.queue.in_flight
        assert {value for name, value in read_off(rig).items() if "inflight" in name} == {0}
        in_flight.pop("u-1")
        in_flight.add(Occurrence(EventResource.NODE, ActionType.UPDATE_NODE_TAINT))
        said = {name: value for name, value in read_off(rig).items() if "inflight" in name and value}
        assert said == {
            'scheduler_inflight_events{event="PodPopped"}': 1,
            'scheduler_inflight_events{event="NodeUpdateNodeTaint"}': 1,
        }
        in_flight.done("u-1")

    ran(*CLUSTER, then=then)


def test_the_build_says_whom_it_follows() -> None:
    ((name, value),) = samples(text([build_info()])).items()
    version = f'git_version="v1.36.2+kframework.{kframework.__version__}"'
    assert value == 1
    assert [label for label in ('major="1"', 'minor="36"', version, 'go_version=""') if label not in name] == []
