from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, ClusterEvent, CycleState, Skip, Status
from kframework.framework.events import QueueingHint
from kframework.objects import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    GCEPersistentDisk,
    OpaqueSource,
    PersistentVolumeClaim,
    Pod,
    Volume,
)
from kframework.plugins.volume_restrictions import (
    CLAIM_IN_USE,
    DISK_TAKEN,
    SelectedPods,
    VolumeRestrictions,
    after_claim_addition,
    after_pod_deletion,
)
from kframework.state.cluster import ClusterState
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import check_plugin, check_wake_ups, make_node, make_pod
from kframework.testing.clusters import RandomCluster
from kframework.values.status import unresolvable, unschedulable
from tests.plugins.asking import made, on_node, pending
from tests.support.volumes_in_use import claim, ephemeral, put, using

TAKEN, IN_USE = unschedulable(DISK_TAKEN), unschedulable(CLAIM_IN_USE)
ONE_POD = ("ReadWriteOncePod",)
SECRET = Volume(name="secret", secret=OpaqueSource())


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(name="gce", gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only))


def ebs(volume_id: str, *, read_only: bool = False) -> Volume:
    return Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id=volume_id, read_only=read_only))


def iscsi(iqn: str, portal: str = "p", *, read_only: bool = False) -> Volume:
    return Volume(name="iscsi", iscsi=ISCSI(iqn=iqn, target_portal=portal, read_only=read_only))


def rbd(*monitors: str, image: str = "image", pool: str = "pool", read_only: bool = False) -> Volume:
    return Volume(name="rbd", rbd=RBD(monitors=monitors, image=image, pool=pool, read_only=read_only))


def cluster_of(*pods: Pod) -> ClusterState:
    """Build a cluster of the nodes `n` and `m`, with a claim `one` for one pod only, and another, `shared`."""
    cluster = ClusterState()
    for name in ("n", "m"):
        cluster.put_node(make_node(name))
    put(cluster, claim("one", modes=("ReadWriteMany", *ONE_POD)), claim("more", modes=ONE_POD), claim("shared"))
    put(cluster, claim("one", namespace="other", modes=ONE_POD))
    for pod in pods:
        cluster.put_pod(pod)
    return cluster


def there(*volumes: str | Volume, name: str = "there", node_name: str = "n", namespace: str = "default") -> Pod:
    return using(*volumes, name=name, node_name=node_name, namespace=namespace)


def asked(cluster: ClusterState, pod: Pod) -> tuple[CycleState, PendingPod, VolumeRestrictions] | Status | None:
    """Prepare a question; answer what `pre_filter` says if that settles it."""
    plugin, state, info = made(VolumeRestrictions, handle=cluster), CycleState(), pending(pod, cluster)
    answer = plugin.pre_filter(state, info, cluster.nodes)
    return answer if answer is not None else (state, info, plugin)


def rejections(cluster: ClusterState, pod: Pod) -> dict[str, Status]:
    question = asked(cluster, pod)
    if question == Skip:
        return {}
    assert isinstance(question, tuple)
    state, info, plugin = question
    answers = {node.name: plugin.filter(state, info, node) for node in cluster.nodes}
    rows = cluster.nodes.order
    bits = plugin.filter_nodes(state, info, cluster.nodes, rows)
    assert [plugin.filter_status(info, bit) if bit else None for bit in bits.tolist()] == list(answers.values())
    assert plugin.filter_nodes(state, info, cluster.nodes, rows[::-1]).tolist() == bits.tolist()[::-1]
    return {name: status for name, status in answers.items() if status is not None}


@pytest.mark.parametrize(
    ("mounted", "wanted", "taken"),
    [
        (gce("a"), gce("a"), True),
        (ebs("a", read_only=True), ebs("a", read_only=True), True),
        (iscsi("a", "p"), iscsi("a", "q"), True),
        (rbd("x", "y"), rbd("y", "z"), True),
        (rbd(), rbd(), False),
        (gce("a"), ebs("a"), False),
        (iscsi("a"), rbd("a"), False),
        (SECRET, gce("a"), False),
    ],
)
def test_disk_is_mounted_once(mounted: Volume, wanted: Volume, taken: bool) -> None:
    cluster = cluster_of(there(SECRET, mounted, namespace="other"), make_pod("idle", node_name="m"))
    assert rejections(cluster, using(SECRET, wanted)) == ({"n": TAKEN} if taken else {})
    assert rejections(cluster, using(SECRET, rbd("other"), wanted)) == ({"n": TAKEN} if taken else {})
    cluster.remove_pod(there(namespace="other").metadata.uid)
    assert rejections(cluster, using(wanted)) == {}


def test_disk_is_reported_before_a_claim() -> None:
    cluster = cluster_of(there("one", gce("a")))
    assert rejections(cluster, using("one", gce("a"))) == {"n": TAKEN, "m": IN_USE}
    assert rejections(cluster, using("more", gce("a"))) == {"n": TAKEN}


@pytest.mark.parametrize(
    ("wanted", "skipped"),
    [
        (using(), True),
        (using(SECRET), True),
        (using("shared"), True),
        (using("more"), True),
        (using(ephemeral("gone")), True),
        (using("one"), False),
        (using(gce("a")), False),
    ],
)
def test_pods_without_conflicts_are_skipped(wanted: Pod, skipped: bool) -> None:
    assert (asked(cluster_of(there("one")), wanted) == Skip) is skipped


def test_missing_claim_is_named() -> None:
    missing = unresolvable('persistentvolumeclaim "gone" not found')
    assert asked(cluster_of(), using("one", "gone", gce("a"))) == missing
    assert asked(cluster_of(), using("shared", namespace="other")) == unresolvable(
        'persistentvolumeclaim "shared" not found'
    )


def test_assumed_claim_is_read_as_the_cluster_has_it() -> None:
    cluster = cluster_of(there("shared"))
    assumed = claim("shared", modes=ONE_POD)
    cluster.objects(PersistentVolumeClaim).assume(assumed.metadata, assumed)
    assert asked(cluster, using("shared")) == Skip


@pytest.mark.parametrize(
    ("victims", "fits"),
    [
        ([there("one", "more")], True),
        ([there("one", name="one")], False),
        ([there("more", name="more"), there("one", name="one")], True),
        # Counted as often as it is used, whatever the namespace: kube-scheduler's quirks.
        ([there("one", "one", name="twice")], True),
        ([there("one", name="foreign", namespace="other"), there("more", name="more")], True),
    ],
)
def test_what_if_counts_uses_of_claims_by_name(victims: list[Pod], fits: bool) -> None:
    cluster = cluster_of(there("one", "more", "shared"))
    question = asked(cluster, using("one", "more"))
    assert isinstance(question, tuple)
    state, info, plugin = question
    what_if, node = state.clone(), cluster.nodes[0]
    for victim in victims:
        plugin.remove_pod(what_if, info, on_node(victim), node)
    assert (plugin.filter(what_if, info, node) is None) is fits
    assert plugin.filter(state, info, node) == IN_USE
    for victim in victims:
        plugin.add_pod(what_if, info, on_node(victim), node)
    assert plugin.filter(what_if, info, node) == IN_USE


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (using(), make_pod(cpu=7), True),
        (using(SECRET, ephemeral("data")), make_pod(), True),
        (using("one"), using("one", name="other"), False),
        (using(gce("a")), using(gce("a"), name="other"), False),
    ],
)
def test_pods_without_disks_and_claims_share_their_answers(one: Pod, other: Pod, shared: bool) -> None:
    first, second = (made(VolumeRestrictions).sign(pending(pod)) for pod in (one, other))
    assert first == second
    assert (first is not None) is shared


def test_events_to_register_are_those_of_kube_scheduler() -> None:
    assert made(VolumeRestrictions).events_to_register() == [
        ClusterEvent("Pod", ActionType.DELETE, after_pod_deletion),
        ClusterEvent("Node", ActionType.ADD | ActionType.DELETE),
        ClusterEvent("PersistentVolumeClaim", ActionType.ADD, after_claim_addition),
    ]


@pytest.mark.parametrize(
    ("gone", "queued"),
    [
        (there("one"), True),
        (using("x", "one", name="nowhere"), True),
        (there("shared"), False),
        (there("one", namespace="other"), False),
        (there(gce("a")), True),
        (there(gce("a"), namespace="other"), True),
        (there(gce("b")), False),
        (there(), False),
    ],
)
def test_pod_that_leaves_wakes_those_that_want_its_disk_or_claim(gone: Pod, queued: bool) -> None:
    said = after_pod_deletion(pending(using("one", gce("a"))), on_node(gone), None)
    assert said is (QueueingHint.QUEUE if queued else QueueingHint.SKIP)


@pytest.mark.parametrize(
    ("added", "queued"),
    [(claim("one"), True), (claim("other"), False), (claim("one", namespace="other"), False)],
)
def test_claim_wakes_its_pods(added: PersistentVolumeClaim, queued: bool) -> None:
    said = after_claim_addition(pending(using("x", "one")), None, added)
    assert said is (QueueingHint.QUEUE if queued else QueueingHint.SKIP)


def test_contract_is_kept() -> None:
    # Without a claim for one pod that two pods use: there what-ifs count as kube-scheduler does, not as the tables are.
    pods = [using(gce("a"), name="a"), using(gce("a", read_only=True), ebs("b"), name="b"), using("one", name="one")]
    gone = using("gone", name="gone")
    found = check_plugin(VolumeRestrictions, pods=[*pods, gone], objects=[claim("one")], examples=4)
    assert found.reasons.keys() >= {DISK_TAKEN, 'persistentvolumeclaim "gone" not found'}
    assert found.passes
    assert found.skips["pre_filter"]


def test_no_wake_up_is_lost() -> None:
    disks = [using(gce("a"), name="disk"), using(gce("a"), name="foreign", namespace="other")]
    pods = [using("one", name="one"), using("one", "more", name="both"), *disks]
    objects = [claim(name, modes=ONE_POD) for name in ("one", "more")]
    assert check_wake_ups(VolumeRestrictions, pods=pods, objects=objects, examples=10).woken


def important(pod: PodInfo) -> bool:
    return pod.priority > 0


@given(st.integers(0, 999), st.integers(1, 4))
def test_chosen_pods_are_those_of_the_nodes_whatever_happens(seed: int, at_once: int) -> None:
    cluster = RandomCluster(Random(seed))
    nodes, chosen = cluster.state.nodes, SelectedPods(cluster.state.nodes, important)
    found = chosen.by_row

    def compare() -> None:
        chosen.refresh()
        truth = {node.row: {pod for pod in node.pods if important(pod)} for node in nodes}
        assert {row: pods for row, pods in truth.items() if pods} == {row: set(of) for row, of in found.items()}

    for _ in range(8):
        for _ in range(at_once):
            cluster.change(compare)
        compare()


def test_late_reader_of_the_log_sees_every_change() -> None:
    cluster = RandomCluster(Random(1))
    nodes, chosen = cluster.state.nodes, SelectedPods(cluster.state.nodes, lambda pod: True)
    for _ in range(3):
        chosen.refresh()
        assert {row: len(pods) for row, pods in chosen.by_row.items()} == {
            node.row: len(node.pods) for node in nodes if node.pods
        }
        for _ in range(2 * nodes.capacity):
            cluster.state.nodes.mark_changed(0)
        cluster.change(lambda: None)
