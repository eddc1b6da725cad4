"""Gauges have the values of the queue, the cache and the pods at the time of the scrape."""

from __future__ import annotations

import asyncio

import pytest

from kframework import CycleState, PendingPod, Wait
from kframework.config.load import parse
from kframework.core.runtime.registry import Registry
from kframework.framework.events import ActionType, EventResource, ObservedEvent
from kframework.objects import ApiObject
from kframework.observe.metrics.engine_metrics import engine_series, pod_resources
from kframework.testing import make_container, make_node, make_pod
from tests.extension_points.scripted import alone, plugin
from tests.observe.metrics.exposition import samples, text
from tests.observe.metrics.rig import Rig, ran

CLUSTER = (make_node("a"), make_pod("small"), make_pod("big", cpu=99), make_pod("held", gates=["later"]))


def read_off(rig: Rig) -> dict[str, float]:
    return samples(text(engine_series(rig.scheduler.engine)))


def test_queue_and_cache_metrics_are_read_from_the_engine() -> None:
    said = {name: value for name, value in read_off(ran(*CLUSTER)).items() if "inflight" not in name}
    assert said == {
        'scheduler_pending_pods{queue="active"}': 0,
        'scheduler_pending_pods{queue="backoff"}': 0,
        'scheduler_pending_pods{queue="gated"}': 1,
        'scheduler_pending_pods{queue="unschedulable"}': 1,
        'scheduler_queued_entities{queue="active",type="pod"}': 0,
        'scheduler_queued_entities{queue="backoff",type="pod"}': 0,
        'scheduler_queued_entities{queue="gated",type="pod"}': 1,
        'scheduler_queued_entities{queue="unschedulable",type="pod"}': 1,
        'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="active"}': 2,
        'scheduler_queue_incoming_pods_total{event="UnscheduledPodAdd",queue="unschedulable"}': 1,
        'scheduler_queue_incoming_pods_total{event="ScheduleAttemptFailure",queue="unschedulable"}': 1,
        'scheduler_queue_incoming_entities_total{event="UnscheduledPodAdd",queue="active",type="pod"}': 2,
        'scheduler_queue_incoming_entities_total{event="UnscheduledPodAdd",queue="unschedulable",type="pod"}': 1,
        'scheduler_queue_incoming_entities_total{event="ScheduleAttemptFailure",queue="unschedulable",type="pod"}': 1,
        'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}': 1,
        'scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"}': 1,
        'scheduler_cache_size{type="nodes"}': 1,
        'scheduler_cache_size{type="pods"}': 1,
        'scheduler_cache_size{type="assumed_pods"}': 0,
        'scheduler_goroutines{operation="binding"}': 0,
    }


def test_binding_wait_metrics_show_pod_count_and_longest_wait() -> None:
    async def never(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.Event().wait()

    def permit(state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(100) if pod.name == "third" else None

    async def then(rig: Rig) -> None:
        assert {name: value for name, value in read_off(rig).items() if name.startswith("kframework")} == {
            'kframework_binding_waiting_pods{extension_point="PreBind",plugin="Quota"}': 2,
            'kframework_binding_waiting_pods{extension_point="Permit",plugin="Quota"}': 1,
            'kframework_binding_longest_wait_seconds{extension_point="PreBind",plugin="Quota"}': 20,
            'kframework_binding_longest_wait_seconds{extension_point="Permit",plugin="Quota"}': 20,
        }

    stuck = plugin("Quota", pre_bind=never, permit=permit)
    pods = [make_pod(name) for name in ("first", "second", "third")]
    ran(NODE, *pods, configuration=parse(alone(stuck)), registry=Registry.with_plugins(stuck), then=then)


def test_in_flight_events_are_counted() -> None:
    async def then(rig: Rig) -> None:
        in_flight = rig.scheduler.engine.queue.in_flight
        assert {value for name, value in read_off(rig).items() if "inflight" in name} == {0}
        in_flight.pop("u-1")
        in_flight.add(ObservedEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT))
        said = {name: value for name, value in read_off(rig).items() if "inflight" in name and value}
        assert said == {
            'scheduler_inflight_events{event="PodPopped"}': 1,
            'scheduler_inflight_events{event="NodeUpdateNodeTaint"}': 1,
        }
        in_flight.done("u-1")

    ran(*CLUSTER, then=then)


NODE = make_node("a", cpu=8, memory="64Gi")


def shown(*objects: ApiObject) -> dict[str, float]:
    return samples(text(pod_resources(ran(*objects).scheduler.engine)))


def series(kind: str, **changes: str) -> str:
    labels = {
        "namespace": "default",
        "node": "a",
        "pod": "pod",
        "priority": "0",
        "scheduler": "default-scheduler",
    } | changes
    pairs = ",".join(f'{name}="{labels[name]}"' for name in sorted(labels))
    return f"kube_pod_resource_{kind}{{{pairs}}}"


def test_pod_resource_metrics_show_requests_and_limits() -> None:
    container = make_container(cpu="250m", memory="1Gi", limits={"cpu": 2})
    assert shown(NODE, make_pod(containers=[container])) == {
        series("request", resource="cpu", unit="cores"): 0.25,
        series("request", resource="memory", unit="bytes"): 2**30,
        series("limit", resource="cpu", unit="cores"): 2,
    }


@pytest.mark.parametrize(
    ("resource", "amount", "unit", "value"),
    [
        ("ephemeral-storage", "1Ki", "bytes", 1024),
        ("hugepages-2Mi", "4Mi", "bytes", 4 << 20),
        ("example.com/gpu", 2, "", 2),
    ],
)
def test_every_resource_has_its_unit(resource: str, amount: str | int, unit: str, value: int) -> None:
    pod = make_pod(cpu=None, memory=None, requests={resource: amount})
    (said,) = shown(pod).items()
    assert said == (series("request", node="", resource=resource, unit=unit), value)


def test_pending_pod_has_an_empty_node_label() -> None:
    said = shown(NODE, make_pod(cpu=99, memory=None))
    assert said == {series("request", node="", resource="cpu", unit="cores"): 99}


def test_pods_of_one_template_have_their_own_names() -> None:
    said = shown(
        NODE, make_pod("one", memory=None), make_pod("two", memory=None), make_pod("x", namespace="other", memory=None)
    )
    assert said.keys() == {
        series("request", pod="one", resource="cpu", unit="cores"),
        series("request", pod="two", resource="cpu", unit="cores"),
        series("request", pod="x", namespace="other", resource="cpu", unit="cores"),
    }


def test_pod_resource_metrics_have_the_priority() -> None:
    (said,) = shown(make_pod(priority=7, memory=None))
    assert 'priority="7"' in said


def test_resources_that_are_not_requested_are_not_shown() -> None:
    assert shown(NODE, make_pod(cpu=None, memory=None)) == {}
