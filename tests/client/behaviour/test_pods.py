"""What every cluster does with pods beyond that: bind them, note their status, let them end, record what happens."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kframework.errors import ClusterError
from kframework.objects import (
    Event,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodStatus,
)
from tests.client.behaviour.ways import Stage, node, pod, refusal
from tests.support.event_records import failed_scheduling

UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")


async def stored(stage: Stage, **spec: object) -> Pod:
    """Make the pod that a test is about, and return it as a client finds it."""
    stage.store.add(pod(**spec))  # type: ignore[arg-type]  # fields of a pod
    return await stage.client.get(Pod, "web", "default")


def conditions(found: Pod) -> dict[str, PodCondition]:
    return {condition.type: replace(condition, last_transition_time=None) for condition in found.status.conditions}


async def test_pod_is_bound(stage: Stage) -> None:
    web = await stored(stage)
    await stage.client.patch_pod_status(
        "default", "web", web.metadata.uid, condition=UNSCHEDULABLE, nominated_node_name="n2"
    )
    await stage.client.bind("default", "web", web.metadata.uid, "n1")
    found = await stage.client.get(Pod, "web", "default")
    assert found.spec.node_name == "n1"
    assert found.status.nominated_node_name == ""
    assert conditions(found) == {"PodScheduled": PodCondition(type="PodScheduled", status="True")}


async def test_bound_pod_gets_the_topology_labels_of_its_node(stage: Stage) -> None:
    zone = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    web = await stored(stage)
    stage.store.add(node(**zone, pool="x"))
    await stage.client.bind("default", "web", web.metadata.uid, "n1")
    assert (await stage.client.get(Pod, "web", "default")).metadata.labels == zone


async def test_pod_is_bound_once(stage: Stage) -> None:
    uid = (await stored(stage)).metadata.uid

    async def bind(name: str) -> str:
        try:
            await stage.client.bind("default", "web", uid, name)
        except ClusterError as error:
            assert (error.status, error.reason) == (409, "Conflict")
            return str(error)
        return ""

    refusals = await asyncio.gather(*(bind(f"n{number}") for number in range(8)))
    place = (await stage.client.get(Pod, "web", "default")).spec.node_name
    why = f'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "{place}"'
    assert sorted(refusals) == ["", *[why] * 7]
    assert refusals[int(place[1:])] == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"scheduling_gates": (PodSchedulingGate(name="g"),)}, "pod web has non-empty .spec.schedulingGates"),
        ({"node_name": "n1"}, 'pod web is already assigned to node "n1"'),
    ],
)
async def test_gated_or_bound_pod_cannot_be_bound(stage: Stage, spec: dict[str, object], words: str) -> None:
    web = await stored(stage, **spec)
    refused = await refusal(stage.client.bind("default", "web", web.metadata.uid, "n2"))
    assert refused == (409, "Conflict", f'Operation cannot be fulfilled on pods/binding "web": {words}')


async def test_pod_that_is_being_deleted_is_not_bound(stage: Stage) -> None:
    web = await stored(stage, node_name="n1")
    await stage.client.delete(Pod, "web", "default")
    status, reason, message = await refusal(stage.client.bind("default", "web", web.metadata.uid, "n2"))
    assert (status, reason) == (409, "Conflict")
    assert "pod web is being deleted, cannot be assigned to a host" in message


async def test_uid_is_a_precondition_of_a_binding(stage: Stage) -> None:
    web = await stored(stage)
    status, reason, message = await refusal(stage.client.bind("default", "web", "other", "n1"))
    assert (status, reason) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: other, UID in object meta: {web.metadata.uid}" in message
    assert await refusal(stage.client.bind("default", "b", "", "n1")) == (404, "NotFound", 'pods "b" not found')
    assert await stage.client.get(Pod, "web", "default") == web


async def test_condition_and_nominated_node_are_one_write(stage: Stage) -> None:
    web = await stored(stage)
    async with stage.watching(Pod) as watched:
        await stage.client.patch_pod_status(
            "default", "web", web.metadata.uid, condition=UNSCHEDULABLE, nominated_node_name="n1"
        )
        await stage.client.create(pod("marker"))
        assert await watched.until("+marker") == ["+web", "synced", "+web", "+marker"]
    found = await stage.client.get(Pod, "web", "default")
    assert (conditions(found), found.status.nominated_node_name) == ({"PodScheduled": UNSCHEDULABLE}, "n1")
    assert found.status.conditions[0].last_transition_time


async def test_status_is_merged(stage: Stage) -> None:
    ready = PodCondition(type="Ready", status="False", reason="NotYet")
    web = await stored(stage)
    status = replace(
        web.status, conditions=(ready, replace(UNSCHEDULABLE, last_transition_time="2001-01-01T00:00:00Z"))
    )
    stage.store.set_status(stage.store.read(Pod, "web", "default"), status)
    later = replace(UNSCHEDULABLE, message="", reason="SchedulerError")
    await stage.client.patch_pod_status("default", "web", web.metadata.uid, condition=later)
    found = await stage.client.get(Pod, "web", "default")
    assert conditions(found) == {"Ready": ready, "PodScheduled": later}
    assert found.status.conditions[1].last_transition_time == "2001-01-01T00:00:00Z", "its status is what it was"
    await stage.client.patch_pod_status("default", "web", web.metadata.uid, nominated_node_name="n1")
    await stage.client.patch_pod_status("default", "web", web.metadata.uid, condition=replace(later, status="True"))
    found = await stage.client.get(Pod, "web", "default")
    assert (found.status.phase, found.status.nominated_node_name) == ("Pending", "n1")
    assert found.status.conditions[1].last_transition_time != "2001-01-01T00:00:00Z"
    await stage.client.patch_pod_status("default", "web", web.metadata.uid, nominated_node_name="")
    assert (await stage.client.get(Pod, "web", "default")).status.nominated_node_name == ""


async def test_unchanged_status_is_not_written(stage: Stage) -> None:
    uid = (await stored(stage)).metadata.uid
    await stage.client.patch_pod_status("default", "web", uid, condition=UNSCHEDULABLE, nominated_node_name="n1")
    version = stage.store.version
    again = replace(UNSCHEDULABLE, observed_generation=1)
    await stage.client.patch_pod_status("default", "web", uid, condition=UNSCHEDULABLE, nominated_node_name="n1")
    await stage.client.patch_pod_status("default", "web", uid, condition=again)
    await stage.client.patch_pod_status("default", "web", uid, nominated_node_name="n1")
    await stage.client.patch_pod_status("default", "web", uid)
    assert stage.store.version == version


async def test_uid_is_a_precondition_of_a_status(stage: Stage) -> None:
    web = await stored(stage)
    client, dated = stage.client, replace(UNSCHEDULABLE, last_transition_time="2001-01-01T00:00:00Z")
    for call in (
        client.patch_pod_status("default", "web", "other", condition=UNSCHEDULABLE),
        client.patch_pod_status("default", "web", "other", condition=dated),
        client.patch_pod_status("default", "web", "other", nominated_node_name="n1"),
    ):
        status, reason, _ = await refusal(call)
        assert (status, reason) == (409, "Conflict")
    gone = client.patch_pod_status("default", "b", "other", condition=dated)
    assert await refusal(gone) == (404, "NotFound", 'pods "b" not found')
    assert await client.get(Pod, "web", "default") == web


async def test_pod_on_a_node_gets_its_grace_period(stage: Stage) -> None:
    web = await stored(stage, node_name="n1")
    await stage.client.delete(Pod, "web", "default", uid=web.metadata.uid)
    dying = (await stage.client.get(Pod, "web", "default")).metadata
    assert dying.deletion_timestamp is not None
    assert (dying.deletion_grace_period_seconds, dying.generation) == (30, web.metadata.generation + 1)
    version = stage.store.version
    await stage.client.delete(Pod, "web", "default")
    assert stage.store.version == version, "to delete it twice is no use"
    stage.store.remove(Pod, "web", "default", grace=0)
    assert (await refusal(stage.client.get(Pod, "web", "default")))[0] == 404


@pytest.mark.parametrize(("place", "phase"), [("", "Pending"), ("n1", "Succeeded"), ("n1", "Failed")])
async def test_pod_that_does_not_run_is_deleted_at_once(stage: Stage, place: str, phase: str) -> None:
    await stored(stage, node_name=place)
    stage.store.set_status(stage.store.read(Pod, "web", "default"), PodStatus(phase=phase))
    await stage.client.delete(Pod, "web", "default")
    assert await stage.client.list(Pod) == []


EVENT = failed_scheduling().event()


async def recorded(stage: Stage) -> Event:
    (found,) = await stage.client.list(Event)
    metadata = ObjectMeta(name=found.metadata.name, namespace=found.metadata.namespace)
    return replace(found, metadata=metadata)


async def test_event_and_its_series(stage: Stage) -> None:
    await stage.client.record_event(failed_scheduling())
    assert await recorded(stage) == EVENT
    for count in (2, 3):
        await stage.client.record_event(failed_scheduling(count=count, note="not worth a change"))
        assert await recorded(stage) == replace(EVENT, series=failed_scheduling(count=count).event().series)


async def test_event_that_is_recorded_twice_is_there_once(stage: Stage) -> None:
    await stage.client.record_event(failed_scheduling())
    before = await stage.client.list(Event)
    await stage.client.record_event(failed_scheduling())
    assert await stage.client.list(Event) == before


async def test_series_of_an_expired_event_is_created_again(stage: Stage) -> None:
    await stage.client.record_event(failed_scheduling(count=2))
    assert await recorded(stage) == failed_scheduling(count=2).event()


async def test_event_in_a_deleted_namespace_is_an_error(stage: Stage) -> None:
    gone = (404, "NotFound", 'namespaces "team" not found')
    assert await refusal(stage.client.record_event(failed_scheduling(namespace="team"))) == gone
    assert await refusal(stage.client.record_event(failed_scheduling(namespace="team", count=2))) == gone
