"""A pod on a node is asked about as it was before it had one."""

from __future__ import annotations

import msgspec

from kframework.explain.restoring import as_pending
from kframework.objects import Affinity, PersistentVolumeClaimSource, Pod, Volume
from kframework.state.pods import Interned, PendingPod, PodInfo
from kframework.testing import make_pod

CLAIMS = [
    Volume(name="a", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="first")),
    Volume(name="b"),
    Volume(name="c", persistent_volume_claim=PersistentVolumeClaimSource(claim_name="second")),
]


def affinity(*names: str) -> Affinity:
    field = {"key": "metadata.name", "operator": "In", "values": names}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return msgspec.convert({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}, Affinity)


def restored(pod: Pod, whole: Pod | None = None) -> PendingPod:
    interned = Interned()
    return as_pending(PodInfo(pod, interned), whole, interned)


def test_a_pod_that_waits_is_as_it_is() -> None:
    interned = Interned()
    pod = PendingPod(make_pod("pod"), interned)
    assert as_pending(pod, None, interned) is pod


def test_what_the_scheduler_keeps_of_a_pod_is_enough() -> None:
    pod = make_pod(
        "pod",
        labels={"app": "web"},
        node_name="n1",
        volumes=CLAIMS,
        affinity=affinity("n1"),
        tolerations=["a=b"],
        priority=7,
    )
    found = restored(pod)
    assert (found.uid, found.key, found.labels, found.priority) == (pod.metadata.uid, "default/pod", {"app": "web"}, 7)
    assert found.spec == msgspec.structs.replace(pod.spec, node_name="")
    assert (found.row, found.node_name) == (-1, "")


def test_what_a_pod_is_pinned_to_beside_its_node_stays() -> None:
    pod = make_pod("pod", node_name="n1", affinity=affinity("n1", "n2"))
    assert restored(pod).spec.affinity == affinity("n1", "n2")


def test_the_whole_object_is_better() -> None:
    whole = make_pod("pod", node_name="n1", annotations={"a": "b"}, nominated_node_name="n1")
    found = restored(make_pod("pod", node_name="n1"), whole)
    assert found.annotations == {"a": "b"}
    assert (found.object.spec.node_name, found.status.nominated_node_name) == ("", "")


def test_the_object_of_another_pod_is_not_used() -> None:
    another = make_pod("another", annotations={"a": "b"})
    assert restored(make_pod("pod", node_name="n1"), another).annotations == {}
