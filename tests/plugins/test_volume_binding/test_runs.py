"""Whole runs on virtual time: volumes are found, made and bound before their pods are, and a failure undoes it all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from kframework import ClusterError, CycleState, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.core.runtime.registry import Registry
from kframework.in_memory.cluster import Fault, MemoryCluster
from kframework.objects import ApiObject, Node, PersistentVolume, PersistentVolumeClaim, Pod
from kframework.objects.claims import is_bound
from kframework.plugins.volume_binding import VolumeBinding
from kframework.plugins.volume_zone import VolumeZone
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, ScenarioResult, create, delete, patch
from tests.support.storage import HOSTNAME, ZONE, claim, claim_volumes, ephemeral, label_affinity, storage_class, volume

REGISTRY = Registry.with_plugins(VolumeBinding, VolumeZone)
CSI = storage_class("csi", "csi.example.com")


def nodes_of(objects: Iterable[ApiObject]) -> dict[str, str | None]:
    """Simulate, and answer where each pod went."""
    simulation = Simulation(objects, registry=REGISTRY).run()
    return {outcome.pod.removeprefix("default/"): outcome.node for outcome in simulation.outcomes}


def test_every_local_volume_takes_one_pod_to_its_node() -> None:
    count = 30
    nodes = [make_node(f"n{number}") for number in range(count)]
    disks = [
        volume(f"disk-{number}", on=label_affinity(HOSTNAME, f"n{number}"), phase="") for number in range(count - 1)
    ]
    claims = [claim(f"data-{number}") for number in range(count)]
    pods = [make_pod(f"web-{number}", volumes=claim_volumes(f"data-{number}")) for number in range(count)]
    went = nodes_of([*nodes, *disks, storage_class(), *claims, *pods])
    assert sorted(filter(None, went.values())) == sorted(f"n{number}" for number in range(count - 1))
    assert list(went.values()).count(None) == 1


def test_volume_is_made_where_its_pod_goes_and_keeps_the_next_pod_there() -> None:
    nodes = [make_node("a", zone="y", cpu=1), make_node("b", zone="z"), make_node("c", zone="z")]
    csi = storage_class("csi", "csi.example.com", allowed=[{ZONE: ["y", "z"]}])
    pods = [
        make_pod("first", cpu=2, node_selector={HOSTNAME: "b"}, volumes=claim_volumes("data")),
        make_pod("second", cpu=3, volumes=claim_volumes("data")),
    ]
    assert nodes_of([*nodes, csi, claim(of="csi"), *pods]) == {"first": "b", "second": "c"}


def test_immediate_and_ephemeral_claims_are_served() -> None:
    now = storage_class("now", "csi.example.com", "Immediate")
    pods = [
        make_pod("with-data", volumes=claim_volumes("data")),
        make_pod("with-scratch", volumes=[ephemeral("scratch", "csi"), ephemeral("more", "now")]),
        make_pod("with-nothing", volumes=claim_volumes("nobody-s")),
    ]
    went = nodes_of([make_node("a"), now, CSI, claim(of="now"), *pods])
    assert went == {"with-data": "a", "with-scratch": "a", "with-nothing": None}


def test_labels_of_volumes_keep_pods_in_their_zones() -> None:
    nodes = [make_node(name, zone=name) for name in "abc"]
    disks = [volume("disk", labels={ZONE: "b"})]
    went = nodes_of([*nodes, *disks, claim(bound="disk"), make_pod("web", volumes=claim_volumes("data"))])
    assert went == {"web": "b"}


LOCAL = (volume(on=label_affinity(HOSTNAME, "a")), storage_class(), claim())
WEB = make_pod("web", volumes=claim_volumes("data"))


def scenario(
    *objects: ApiObject, pods: Iterable[Pod] = (WEB,), nodes: Iterable[Node] = (), seconds: int = 600
) -> Scenario:
    return Scenario(
        nodes=list(nodes) or [make_node("a"), make_node("b")],
        pods=pods,
        objects=objects,
        plugins=[VolumeBinding],
        args={"VolumeBinding": {"bindTimeoutSeconds": seconds}},
        volume_controller=False,
    )


def assumed(result: ScenarioResult) -> tuple[PersistentVolume | None, PersistentVolumeClaim | None]:
    """Return what is assumed of the disk and the claim, each None where that is what the cluster says."""
    plugin = result.plugins["VolumeBinding"]
    disks, claims = plugin.handle.objects(PersistentVolume), plugin.handle.objects(PersistentVolumeClaim)
    disk, data = disks.get("disk"), claims.get("data", "default")
    return (
        disk if disk is not disks.latest("disk") else None,
        data if data is not claims.latest("data", "default") else None,
    )


def bind_claim(cluster: MemoryCluster) -> object:
    """Do what the controller does when a volume is kept for the claim."""
    of = cluster.read(PersistentVolumeClaim, "data", "default")
    annotations = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
    return cluster.patch(
        PersistentVolumeClaim, "data", annotations | {"spec": {"volumeName": "disk"}}, of.metadata.namespace
    )


def test_pod_is_bound_at_the_first_look_after_its_volume_is() -> None:
    result = scenario(*LOCAL).at(2.5, bind_claim).run()
    assert result.node_of("web") == "a"
    (binding,) = result.bindings
    assert binding.ended_at - binding.started_at == 3.0
    disk = result.cluster.read(PersistentVolume, "disk")
    by = disk.spec.claim_ref
    assert by is not None and (by.name, by.uid) == ("data", "uid-data")
    assert disk.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert assumed(result) == (None, None)


def test_while_it_waits_the_pod_announces_its_node() -> None:
    result = scenario(*LOCAL).run(until=2.0)
    assert result.pod("web").status.nominated_node_name == "a"
    assert result.node_of("web") is None


def test_claims_that_are_bound_take_no_time() -> None:
    result = scenario(volume(on=label_affinity(HOSTNAME, "b")), claim(bound="disk")).run()
    assert (result.node_of("web"), result.seconds) == ("b", 0.0)
    assert result.pod("web").status.nominated_node_name == ""


@pytest.mark.parametrize("seconds", [0, 1, 5])
def test_volumes_that_are_not_bound_in_time_send_the_pod_back(seconds: int) -> None:
    result = scenario(*LOCAL, seconds=seconds).run(until=seconds + 0.5)
    assert result.message_of("web") == (
        'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    )
    assert result.state_of("web") == "backoff"
    (binding,) = result.bindings
    assert binding.ended_at - binding.started_at == seconds
    assert assumed(result) == (None, None)


def failed(result: ScenarioResult) -> str:
    """Return what went wrong in PreBind; nothing is left assumed."""
    assert assumed(result) == (None, None)
    condition = result.condition_of("web")
    assert condition is not None and condition.reason == "SchedulerError"
    return condition.message.removeprefix('running PreBind plugin "VolumeBinding": ')


def refusing(kind: type[ApiObject]) -> Callable[[MemoryCluster], object]:
    """Let the API refuse to patch a kind."""

    def refuse(method: str, asked: type[ApiObject], namespace: str, name: str) -> Fault | None:
        refusal = ClusterError("the server is ill", status=500)
        return Fault(error=refusal) if (method, asked) == ("patch", kind) else None

    return lambda cluster: cluster.faults.append(refuse)


def test_refused_volume_is_released() -> None:
    result = scenario(*LOCAL).at(0, refusing(PersistentVolume)).run(until=0.5)
    assert failed(result) == "the server is ill"
    assert result.cluster.read(PersistentVolume, "disk").spec.claim_ref is None


def test_refused_claim_is_released_and_the_written_volume_stays() -> None:
    pod = make_pod("web", volumes=claim_volumes("data", "new"))
    objects = (volume("other"), storage_class(), claim("new"), CSI, claim(of="csi"))
    result = scenario(*objects, pods=[pod]).at(0, refusing(PersistentVolumeClaim)).run(until=0.5)
    assert failed(result) == "the server is ill"
    by = result.cluster.read(PersistentVolume, "other").spec.claim_ref
    assert by is not None and by.name == "new"


def test_volume_that_changed_meanwhile_is_not_written() -> None:
    def late(method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        return Fault(delay=1.0) if (method, kind) == ("patch", PersistentVolume) else None

    course = scenario(*LOCAL).at(0, lambda cluster: cluster.faults.append(late))
    result = course.at(
        0.5, lambda cluster: cluster.replace(volume(on=label_affinity(HOSTNAME, "a"), labels={"x": "y"}))
    ).run(until=1.5)
    assert "the object has been modified" in failed(result)
    assert result.cluster.read(PersistentVolume, "disk").spec.claim_ref is None


@pytest.mark.parametrize(
    ("happens", "text"),
    [
        (patch(claim(of="csi"), {"metadata": {"annotations": None}}), 'selectedNode annotation reset for PVC "data"'),
        (
            patch(claim(of="csi"), {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}}),
            'provisioning failed for PVC "data"',
        ),
        (
            delete(claim(of="csi")),
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
        ),
        (delete(make_node("a")), 'failed to get node "a": node "a" not found'),
    ],
)
def test_volume_that_is_not_made_sends_the_pod_back(happens: Callable[[MemoryCluster], object], text: str) -> None:
    result = scenario(CSI, claim(of="csi"), nodes=[make_node("a")]).at(3.5, happens).run(until=4.5)
    assert failed(result) == f"binding volumes: {text}"


def test_volume_that_is_made_out_of_reach_sends_the_pod_back() -> None:
    made = volume("pvc-1", "csi", on=label_affinity(HOSTNAME, "elsewhere"))
    course = scenario(CSI, claim(of="csi"), nodes=[make_node("a")]).at(0.2, create(made))
    course.at(0.5, patch(claim(of="csi"), {"spec": {"volumeName": "pvc-1"}}))
    text = 'pv "pvc-1" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    assert failed(course.run(until=1.5)) == f"binding volumes: {text}"


def test_volume_whose_claim_was_reset_sends_the_pod_back() -> None:
    course = scenario(*LOCAL).at(0.5, patch(LOCAL[0], {"spec": {"claimRef": None}}))
    assert failed(course.run(until=1.5)) == 'binding volumes: ClaimRef got reset for pv "disk"'


def test_deleted_pod_does_not_wait_for_volumes() -> None:
    result = scenario(*LOCAL).at(2.5, delete(WEB)).run(until=10)
    (binding,) = result.bindings
    assert binding.message.endswith('binding volumes: pod does not exist any more: pod "web" not found')
    assert binding.ended_at - binding.started_at == 3.0
    assert assumed(result) == (None, None)


def test_reserved_volume_is_not_given_to_another_pod() -> None:
    pods = [WEB, make_pod("late", volumes=claim_volumes("more"))]
    result = scenario(*LOCAL, claim("more"), pods=pods).run(until=2)
    assert result.state_of("late") == "unschedulable"
    assert "2 node(s) didn't find available persistent volumes to bind" in result.message_of("late")


def test_pod_that_shares_a_claim_goes_to_the_selected_node() -> None:
    pods = [WEB, make_pod("second", volumes=claim_volumes("data"))]
    result = scenario(CSI, claim(of="csi"), pods=pods).run(until=0.5)
    first, second = (result.decisions_on(name)[0].node for name in ("web", "second"))
    assert first == second
    of = result.cluster.read(PersistentVolumeClaim, "data", "default")
    assert of.metadata.annotations == {"volume.kubernetes.io/selected-node": first} and not is_bound(of)


class Refuses(Plugin):
    """Lets no pod go."""

    name = "Refuses"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status:
        return unschedulable("not today")


def test_reservation_that_another_plugin_refuses_is_undone() -> None:
    run = Scenario(
        nodes=[make_node("a")], pods=[WEB], objects=LOCAL, plugins=[VolumeBinding, Refuses], volume_controller=False
    )
    result = run.run(until=1)
    assert "not today" in result.message_of("web")
    assert assumed(result) == (None, None)
    disk = result.plugins["VolumeBinding"].handle.objects(PersistentVolume).get("disk")
    assert disk is not None and disk.spec.claim_ref is None
