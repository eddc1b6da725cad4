"""A pod is found by its name, or one line says why not; a pod on a node is as it was before it had one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from kframework.core.pod_engine import PodEngine
from kframework.explain.lookup import find_pod, not_found_message, unassign
from kframework.objects import Affinity, PersistentVolumeClaimSource, Pod, Volume
from kframework.scheduler.cooperative import run_to_end
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene


@pytest.mark.parametrize(("namespace", "name"), [("default", "pending"), ("other", "pending"), ("default", "placed")])
def test_pod_of_this_scheduler_is_found(namespace: str, name: str) -> None:
    pods = make_pod("pending"), make_pod("pending", namespace="other"), make_pod("placed", node_name="n1")
    scene = Scene(make_node("n1"), *pods)
    scene.engine.apply_messages()
    found = run_to_end(find_pod(scene.engine, namespace, name))
    assert found is not None and found.key == f"{namespace}/{name}"


@pytest.mark.parametrize("name", ["absent", "foreign", "foreign-placed"])
def test_pod_of_another_scheduler_is_not_found(name: str) -> None:
    foreign = make_pod("foreign-placed", node_name="n1", scheduler_name="another")
    scene = Scene(make_node("n1"), make_pod("pod"), foreign, make_pod("foreign", scheduler_name="another"))
    scene.engine.apply_messages()
    assert run_to_end(find_pod(scene.engine, "default", name)) is None


def test_lookup_among_many_pods_pauses() -> None:
    scene = Scene(make_node("n1"), *(make_pod(f"p{n}", node_name="n1") for n in range(10_000)))
    scene.engine.apply_messages()
    assert sum(1 for _ in find_pod(scene.engine, "default", "absent")) == 2


def ended(phase: str) -> Pod:
    pod = make_pod("pod")
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


@pytest.mark.parametrize(
    ("pod", "line"),
    [
        (None, "there is no pod default/pod"),
        (
            make_pod("pod", scheduler_name="another"),
            "pod default/pod is for the scheduler 'another'; this one schedules for one, two",
        ),
        (ended("Succeeded"), "pod default/pod has finished (Succeeded) and is no longer scheduled"),
        (ended("Failed"), "pod default/pod has finished (Failed) and is no longer scheduled"),
        (make_pod("pod"), "the scheduler does not know pod default/pod yet"),
    ],
)
def test_message_says_why_a_pod_is_unknown(pod: Pod | None, line: str) -> None:
    profiles = ["one", "two"] if pod is not None and pod.spec.scheduler_name == "another" else ["default-scheduler"]
    engine = SimpleNamespace(profiles=profiles, cluster=SimpleNamespace(pods={}), handlers=SimpleNamespace(pending={}))
    assert not_found_message(cast("PodEngine", engine), "default", "pod", pod) == line


@pytest.mark.parametrize(
    ("namespace", "name", "similar"),
    [
        ("default", "web", "; did you mean shop/web?"),
        ("shop", "wbe-2", "; did you mean shop/web-2?"),
        ("default", "other", ""),
    ],
)
def test_message_names_a_similar_pod(namespace: str, name: str, similar: str) -> None:
    scene = Scene(
        make_node("n1"), make_pod("web", namespace="shop"), make_pod("web-2", namespace="shop", node_name="n1")
    )
    scene.engine.apply_messages()
    assert not_found_message(scene.engine, namespace, name, None) == f"there is no pod {namespace}/{name}{similar}"


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
    interned = TemplateInterner()
    return unassign(PodInfo(pod, interned), whole, interned)


def test_unassign_returns_a_pending_pod_unchanged() -> None:
    interned = TemplateInterner()
    pod = PendingPod(make_pod("pod"), interned)
    assert unassign(pod, None, interned) is pod


def test_unassign_rebuilds_a_bound_pod_from_the_kept_data() -> None:
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


def test_unassign_keeps_other_pinned_fields() -> None:
    pod = make_pod("pod", node_name="n1", affinity=affinity("n1", "n2"))
    assert restored(pod).spec.affinity == affinity("n1", "n2")


def test_unassign_prefers_the_whole_object() -> None:
    whole = make_pod("pod", node_name="n1", annotations={"a": "b"}, nominated_node_name="n1")
    found = restored(make_pod("pod", node_name="n1"), whole)
    assert found.annotations == {"a": "b"}
    assert (found.object.spec.node_name, found.status.nominated_node_name) == ("", "")


def test_unassign_ignores_the_object_of_another_pod() -> None:
    another = make_pod("another", annotations={"a": "b"})
    assert restored(make_pod("pod", node_name="n1"), another).annotations == {}
