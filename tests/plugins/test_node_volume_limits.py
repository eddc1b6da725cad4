from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework import ActionType, CycleState, Skip, Status
from kframework.framework.events import QueueingHint
from kframework.framework.plugin import PluginArgs
from kframework.objects import (
    AWSElasticBlockStore,
    AzureFile,
    CSINode,
    CSISource,
    GCEPersistentDisk,
    OpaqueSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
    PodSpec,
    StorageClass,
    Volume,
    VolumeAttachment,
)
from kframework.objects.meta import ApiObject
from kframework.plugins.node_volume_limits import (
    REASON,
    NodeVolumeLimits,
    VolumeError,
    after_attachment_deletion,
    after_claim_change,
    after_csi_node_change,
    after_driver_installation,
    after_pod_deletion,
)
from kframework.state.cluster import ClusterState
from kframework.testing import check_plugin, make_node, make_pod, stub_handle
from kframework.values.feature_gates import MINORS, FeatureGates
from kframework.values.status import Code, unresolvable, unschedulable
from tests.plugins.asking import filtered, made, on_node, pending
from tests.support.volumes_in_use import (
    attachment,
    claim,
    csi_node,
    csi_volume,
    ephemeral,
    put,
    slow_answer,
    storage_class,
    using,
    volume,
)

EXCEEDED = unschedulable(REASON)

EBS = Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
BROKEN = Volume(name="broken", aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://eu-1a/disk"))
GCE = Volume(name="gce", gce_persistent_disk=GCEPersistentDisk(pd_name="disk"))
FILE = Volume(name="file", azure_file=AzureFile(share_name="share"))
SECRET = Volume(name="secret", secret=OpaqueSource())


def cluster_of(limit: int | None, *pods: Pod, driver: str = "a") -> ClusterState:
    """Build a cluster of one node `n`, whose driver can attach `limit` volumes, with claims c1.. of volumes v1.."""
    cluster = ClusterState()
    cluster.put_node(make_node("n"))
    put(cluster, csi_node("n", {driver: limit}), *(csi_volume(f"v{n}") for n in range(1, 5)))
    put(cluster, *(claim(f"c{n}", f"v{n}") for n in range(1, 5)))
    for pod in pods:
        cluster.put_pod(pod)
    return cluster


def rejections(cluster: ClusterState, pod: Pod) -> list[Status]:
    return list(filtered(made(NodeVolumeLimits, handle=cluster), cluster, pod).values())


def there(*volumes: str | Volume, name: str = "there") -> Pod:
    return using(*volumes, name=name, node_name="n")


def test_assumed_binding_is_not_counted_as_one() -> None:
    cluster = cluster_of(1)
    put(cluster, storage_class("fast", "b"), claim("c", storage_class="fast"), csi_node("n", {"a": 0, "b": 1}))
    assert rejections(cluster, using("c")) == []
    assumed = claim("c", "v1", storage_class="fast")
    cluster.objects(PersistentVolumeClaim).assume(assumed.metadata, assumed)
    assert rejections(cluster, using("c")) == []
    put(cluster, assumed)
    assert rejections(cluster, using("c")) == [EXCEEDED]


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (using(""), "PersistentVolumeClaim had no name"),
        (
            using(ephemeral("foreign")),
            "PVC default/pod-foreign was not created for pod default/pod (pod is not owner)",
        ),
        (
            using(BROKEN),
            "converting volume(broken) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID",
        ),
    ],
)
def test_volume_that_makes_no_sense_is_an_error(wanted: Pod, text: str) -> None:
    cluster = cluster_of(1)
    put(cluster, claim("pod-foreign", owner="another"))
    plugin, state, pod = made(NodeVolumeLimits, handle=cluster), CycleState(), pending(wanted, cluster)
    assert plugin.pre_filter(state, pod, cluster.nodes) is None
    status = plugin.filter(state, pod, cluster.nodes[0])
    assert status is not None
    assert (status.code, status.message.startswith(text)) == (Code.ERROR, True)
    with pytest.raises(VolumeError):
        plugin.filter_nodes(state, pod, cluster.nodes, cluster.nodes.order)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (using("c2"), EXCEEDED),
        (using("c1"), None),
        (using("gone"), unresolvable('looking up PVC default/gone: persistentvolumeclaim "gone" not found')),
        (using(SECRET), None),
    ],
)
def test_profile_may_have_the_plugin_at_filter_alone(wanted: Pod, told: Status | None) -> None:
    cluster = cluster_of(1, there("c1"))
    plugin, pod = made(NodeVolumeLimits, handle=cluster), pending(wanted, cluster)
    assert plugin.filter(CycleState(), pod, cluster.nodes[0]) == told
    (bits,) = plugin.filter_nodes(CycleState(), pod, cluster.nodes, cluster.nodes.order).tolist()
    assert (plugin.filter_status(pod, bits) if bits else None) == told


@pytest.mark.parametrize("wanted", [using(), using(SECRET), make_pod()])
def test_pods_without_such_volumes_are_skipped_and_share_their_answers(wanted: Pod) -> None:
    plugin = made(NodeVolumeLimits)
    assert plugin.pre_filter(CycleState(), pending(wanted), ClusterState().nodes) == Skip
    assert plugin.sign(pending(wanted)) == plugin.sign(pending(make_pod("other"))) is not None


@pytest.mark.parametrize("wanted", [using("c1"), using(ephemeral("data")), using(EBS), using(FILE)])
def test_other_pods_are_filtered_in_every_cycle(wanted: Pod) -> None:
    cluster = cluster_of(1)
    plugin = made(NodeVolumeLimits, handle=cluster)
    assert plugin.pre_filter(CycleState(), pending(wanted, cluster), cluster.nodes) is None
    assert plugin.sign(pending(wanted, cluster)) is None


@pytest.mark.parametrize("minor", MINORS)
def test_events_requeue_a_pod_if_they_may_help(minor: str) -> None:
    plugin = NodeVolumeLimits(PluginArgs(), stub_handle(feature_gates=FeatureGates(minor)))
    registered = [(event.resource, event.action, event.hint is not None) for event in plugin.events_to_register()]
    added, changed, gone = ActionType.ADD, ActionType.UPDATE, ActionType.DELETE
    in_1_37 = [("storage.k8s.io/CSIDriver", changed | gone, False), ("storage.k8s.io/CSINode", changed, True)]
    assert registered == [
        *(in_1_37 if minor == "1.37" else ()),
        ("Node", added, False),
        ("storage.k8s.io/CSINode", added | gone, False),
        ("storage.k8s.io/CSINode", changed, True),
        ("Pod", gone, True),
        ("AssignedPod", added, True),
        ("PersistentVolumeClaim", added | changed, True),
        ("PersistentVolumeClaim", gone, False),
        ("PersistentVolume", added | changed, True),
        ("PersistentVolume", gone, False),
        ("storage.k8s.io/StorageClass", gone, False),
        ("storage.k8s.io/VolumeAttachment", gone, True),
    ]


@pytest.mark.parametrize(
    ("before", "after", "queued"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": 2}, {"a": 1}, False),
        ({"a": 2}, {"a": 2}, False),
        ({}, {"a": 1}, True),
        ({}, {"a": 0}, False),
        ({"a": None}, {"a": 1}, True),
        ({"a": 1}, {"a": None}, True),
        ({"a": 1}, {}, True),
        ({"a": 2, "b": 1}, {"a": 1, "b": 2}, True),
    ],
)
def test_driver_that_can_attach_more(before: dict[str, int | None], after: dict[str, int | None], queued: bool) -> None:
    said = after_csi_node_change(pending(using("c1")), csi_node("n", before), csi_node("n", after))
    assert said is hint(queued)


@pytest.mark.parametrize(
    ("gone", "queued"),
    [
        (there("c1"), True),
        (there(ephemeral("data")), True),
        (there(FILE), True),
        (there(SECRET), False),
        (using("c1"), False),
        (make_pod(volumes=using("c1").spec.volumes, nominated_node_name="n"), True),
    ],
)
def test_pod_that_leaves(gone: Pod, queued: bool) -> None:
    assert after_pod_deletion(pending(using("c1")), on_node(gone), None) is hint(queued)


@pytest.mark.parametrize(
    ("arrived", "queued"), [(there("c1"), True), (there("c2"), False), (there("twin"), True), (there(), False)]
)
def test_pod_that_comes_with_a_volume_in_common(arrived: Pod, queued: bool) -> None:
    cluster = cluster_of(1)
    put(cluster, claim("twin", "v1"))
    plugin = made(NodeVolumeLimits, handle=cluster)
    assert plugin.after_pod_arrival(pending(using("c1", "c3")), None, on_node(arrived)) is hint(queued)


@pytest.mark.parametrize(
    ("changed", "queued"),
    [
        (claim("c1"), True),
        (claim("pod-data"), True),
        (claim("c2"), False),
        (claim("c1", namespace="other"), False),
    ],
)
def test_claim_that_appears_or_changes(changed: PersistentVolumeClaim, queued: bool) -> None:
    assert after_claim_change(pending(using("c1", ephemeral("data"))), None, changed) is hint(queued)


@pytest.mark.parametrize(("changed", "queued"), [("v1", True), ("v2", False), ("other", False)])
def test_volume_that_appears_or_changes(changed: str, queued: bool) -> None:
    plugin = made(NodeVolumeLimits, handle=cluster_of(1))
    assert plugin.after_volume_change(pending(using("gone", "c1")), None, csi_volume(changed)) is hint(queued)


@pytest.mark.parametrize(
    ("wanted", "attacher", "queued"),
    [
        (using("c1"), "any", True),
        (using(ephemeral("data")), "any", True),
        (using(EBS), "ebs.csi.aws.com", True),
        (using(FILE), "file.csi.azure.com", True),
        (using(EBS, FILE), "any", False),
        (using(BROKEN), "any", True),
        (using(SECRET), "any", False),
    ],
)
def test_volume_that_is_detached(wanted: Pod, attacher: str, queued: bool) -> None:
    assert after_attachment_deletion(pending(wanted), attachment("x", "n", "v1", attacher), None) is hint(queued)


def hint(queued: bool) -> QueueingHint:
    return QueueingHint.QUEUE if queued else QueueingHint.SKIP


# -- against the slow rules ----------------------------------------------------------------------------------------

DRIVERS = ("a", "b", "ebs.csi.aws.com", "pd.csi.storage.gke.io")
CLAIMS = ("c0", "c1", "c2", "c3", "pod-0-data", "pod-1-data")
VOLUMES = ("v0", "v1", "v2", "v3")
CLASSES = ("fast", "slow")
PROVISIONERS = ("a", "a", "b", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file")
SOURCES = (
    PersistentVolumeSpec(csi=CSISource(driver="a", volume_handle="h0")),
    PersistentVolumeSpec(csi=CSISource(driver="a", volume_handle="h1")),
    PersistentVolumeSpec(csi=CSISource(driver="a", volume_handle="h2")),
    PersistentVolumeSpec(csi=CSISource(driver="b", volume_handle="h0")),
    PersistentVolumeSpec(csi=CSISource(driver="a")),
    PersistentVolumeSpec(nfs=OpaqueSource()),
    PersistentVolumeSpec(aws_elastic_block_store=EBS.aws_elastic_block_store),
    PersistentVolumeSpec(gce_persistent_disk=GCE.gce_persistent_disk),
)


class World:
    """A cluster to which things happen at random, and its pods as the API has them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.cluster = ClusterState()
        self.pods: dict[str, Pod] = {}
        self.plugin = made(NodeVolumeLimits, handle=self.cluster)
        self.names = [f"n{number}" for number in range(random.choice([1, 2, 10]))]
        for name in self.names:
            self.cluster.put_node(make_node(name))
            put(self.cluster, self._csi_node(name))
        for make in (self._claim, self._volume, self._class, self._attachment):
            for _ in range(10):
                put(self.cluster, make())

    def check(self) -> None:
        """Compare both forms with the slow rules, about every node."""
        pod = self._pod("pod-0", "")
        info, state, nodes = pending(pod, self.cluster), CycleState(), self.cluster.nodes
        expected = [slow_answer(self.cluster, pod, node.name, self.pods) for node in nodes]
        if self.plugin.pre_filter(state, info, nodes) == Skip:
            assert not any(expected)
            return
        one_by_one = [self.plugin.filter(state, info, node) for node in nodes]
        assert [_told(status) for status in one_by_one] == expected
        try:
            bits = self.plugin.filter_nodes(state, info, nodes, nodes.order).tolist()
        except VolumeError:
            assert ("Error", "") in expected or BROKEN in pod.spec.volumes
        else:
            assert [self.plugin.filter_status(info, bit) if bit else None for bit in bits] == one_by_one

    def happen(self) -> None:
        """Let something happen."""
        pods, objects = (self._pod_comes, self._pod_comes, self._pod_goes), (self._object_comes,) * 3
        self.random.choice((*pods, *objects, self._object_goes, self._node_changes, self._what_if))()

    def _pod_comes(self) -> None:
        """A pod is bound, reported again, or assumed."""
        name = f"pod-{self.random.randint(0, 5)}"
        pod = self.pods.get(name)
        if pod is None or name not in self.cluster.pods:
            pod = self._pod(name, self.random.choice(self.names))
            if self.random.random() < 0.3:
                self._assume(pod, self.random.choice(self.names))
                return
        self.pods[name] = pod
        self.cluster.put_pod(msgspec.structs.replace(pod, spec=self._placed(pod)))

    def _placed(self, pod: Pod) -> PodSpec:
        """Return the spec with the node where the pod is or, if it is on none, may be."""
        known = self.cluster.pods.get(pod.metadata.uid)
        node_name = known.node_name if known is not None else self.random.choice(self.names)
        return msgspec.structs.replace(pod.spec, node_name=node_name)

    def _assume(self, pod: Pod, node_name: str) -> None:
        self.pods[pod.metadata.uid] = pod
        info = pending(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="")), self.cluster)
        self.cluster.assume(info, node_name)

    def _pod_goes(self) -> None:
        if self.cluster.pods:
            self.cluster.remove_pod(self.random.choice(list(self.cluster.pods)))

    def _pod(self, name: str, node_name: str) -> Pod:
        volumes = self.random.choices((*CLAIMS[:4], *CLAIMS[:4], EBS, GCE, FILE, SECRET), k=self.random.randint(0, 3))
        if self.random.random() < 0.1:
            volumes.append(self.random.choice([BROKEN, ephemeral("data"), ephemeral("data")]))
        pod = using(*volumes, name=name, node_name=node_name)
        return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=name))

    def _what_if(self) -> None:
        """Evict and assume within a statement, perhaps look, perhaps keep it."""
        statement, on_nodes = self.cluster.statement(), [pod for pod in self.cluster.pods.values() if pod.row >= 0]
        if on_nodes:
            statement.evict(self.random.choice(on_nodes))
        if "guest" not in self.cluster.pods and len(self.cluster.nodes):
            self.pods["guest"] = self._pod("guest", "")
            guest = pending(self.pods["guest"], self.cluster)
            statement.assume(guest, self.random.choice([node.name for node in self.cluster.nodes]))
        if self.random.random() < 0.7:
            self.check()
        if self.random.random() < 0.5:
            statement.rollback()
            return
        statement.commit()
        for pod in statement.evicted:
            self.cluster.remove_pod(pod.uid)

    def _node_changes(self) -> None:
        name = self.random.choice(self.names)
        if name in self.cluster.nodes and len(self.cluster.nodes) > 1:
            self.cluster.remove_node(name)
        else:
            self.cluster.put_node(make_node(name))

    def _object_comes(self) -> None:
        name = self.random.choice(self.names)
        make = self.random.choice(
            (self._claim, self._claim, self._volume, self._class, self._attachment, lambda: self._csi_node(name))
        )
        put(self.cluster, make())

    def _object_goes(self) -> None:
        kinds = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, VolumeAttachment)
        store = self.cluster.objects(self.random.choice(kinds))
        existing = list(store)
        if existing:
            store.remove(self.random.choice(existing).metadata)

    def _claim(self) -> ApiObject:
        return claim(
            self.random.choice(CLAIMS),
            self.random.choice(["", "", *VOLUMES]),
            storage_class=self.random.choice([None, *CLASSES]),
            owner=self.random.choice(["", "pod-0", "pod-1"]),
        )

    def _volume(self) -> ApiObject:
        zone = self.random.choice(["", "eu-west-1", "eu-west-1__us-west-1"])
        return volume(self.random.choice(VOLUMES), self.random.choice(SOURCES), **{"topology.kubernetes.io/zone": zone})

    def _class(self) -> ApiObject:
        return storage_class(self.random.choice(CLASSES), self.random.choice(PROVISIONERS))

    def _attachment(self) -> ApiObject:
        return attachment(
            self.random.choice(["x", "y", "z"]),
            self.random.choice(self.names),
            self.random.choice([None, *VOLUMES]),
            self.random.choice(["", "a", "a", "b"]),
        )

    def _csi_node(self, name: str) -> CSINode:
        drivers = self.random.sample(DRIVERS, self.random.randint(0, 4))
        return csi_node(name, {driver: self.random.choice([None, 0, 1, 1, 2, 3]) for driver in drivers})


def _told(status: Status | None) -> tuple[str, str] | None:
    """Give a status as the slow rules do."""
    if status is None:
        return None
    return status.code.title, "" if status.code == Code.ERROR else status.message


@given(st.randoms(use_true_random=False))
def test_answers_agree_with_the_slow_rules_through_random_changes(random: Random) -> None:
    world = World(random)
    for _ in range(12):
        for _ in range(random.randint(1, 4)):
            world.happen()
        world.check()


def test_late_reader_of_the_log_sees_every_change() -> None:
    cluster = cluster_of(1, there("c1"))
    plugin = made(NodeVolumeLimits, handle=cluster)
    assert list(filtered(plugin, cluster, using("c2")).values()) == [EXCEEDED]
    for _ in range(200):
        cluster.remove_pod(there("c1").metadata.uid)
        cluster.put_pod(there("c1"))
    cluster.remove_pod(there("c1").metadata.uid)
    assert list(filtered(plugin, cluster, using("c2")).values()) == []


def test_table_may_grow() -> None:
    cluster = cluster_of(1, there("c1"))
    plugin = made(NodeVolumeLimits, handle=cluster)
    assert filtered(plugin, cluster, using("c2")).keys() == {"n"}
    for number in range(100):
        cluster.put_node(make_node(f"n{number}"))
    put(cluster, csi_node("n99", {"a": 0}))
    assert filtered(plugin, cluster, using("c2")).keys() == {"n", "n99"}


def test_contract_is_kept() -> None:
    nodes = [make_node(f"limited-{number}") for number in range(9)]
    limits = [csi_node(node.metadata.name, {"a": limit}) for node in nodes for limit in (1, 2)]
    volumes = [csi_volume(f"v{number}") for number in range(3)]
    claims = [claim(f"c{number}", f"v{number}") for number in range(3)]
    attached = [attachment("x", "limited-0", "v2"), attachment("y", "limited-1", "v0")]
    pods = [using("c0", name="zero"), using("c1", "c2", name="two"), using(EBS, GCE, name="inline")]
    found = check_plugin(
        NodeVolumeLimits, nodes=nodes, pods=pods, objects=[*limits, *volumes, *claims, *attached], examples=4
    )
    assert found.reasons[REASON]
    assert any(reason.startswith("looking up PVC default/c") for reason in found.reasons)
    assert found.passes
    assert found.skips["pre_filter"]


def test_driver_that_was_installed_requeues_the_pod() -> None:
    pod, before = pending(using("c1")), csi_node("n", {"a": None})
    assert after_driver_installation(pod, before, csi_node("n", {"a": None, "b": None})) is hint(True)
    assert after_driver_installation(pod, before, csi_node("n", {"a": 3})) is hint(False)
