"""Everything happens to a cluster sooner or later, as an API server would allow it; one seed tells one story."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from kframework.framework.events import node_updates, pod_updates
from kframework.objects import ApiObject, Node, ObjectMeta, Pod, PriorityClass, Service
from kframework.objects.kinds import reference
from kframework.state.inbox import Deleted, Upserted
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_node, make_pod
from kframework.testing.clusters import with_values
from kframework.testing.random_events import GATE, RandomEvents

GIVEN = make_node("given", labels={"disk": "tape"})
WEB = make_pod("web", labels={"app": "given"}, tolerations=["given"])
URGENT = PriorityClass(metadata=ObjectMeta(name="urgent"))


def story(seed: int, events: int = 300) -> list[Upserted | Deleted]:
    """List what happens to one cluster."""
    course = RandomEvents(Random(seed), nodes=[GIVEN], pods=[WEB], objects=[URGENT])
    return [*course.initial_messages(), *(course.next_message() for _ in range(events))]


def changes(seed: int) -> Iterator[tuple[ApiObject | None, ApiObject | None]]:
    """List each object that changed as it was before and is after."""
    there: dict[str, ApiObject] = {}
    for message in story(seed):
        key = reference(message.obj)
        old = there.pop(key, None)
        if isinstance(message, Upserted):
            there[key] = message.obj
            yield old, message.obj
        else:
            yield old, None


def test_same_seed_makes_the_same_changes() -> None:
    assert story(1) == story(1) != story(2)


def test_every_object_has_a_uid_of_its_own() -> None:
    uids: dict[str, set[str]] = {}
    for _, new in changes(1):
        if new is not None:
            uids.setdefault(new.metadata.uid, set()).add(reference(new))
    assert "" not in uids
    assert all(len(names) == 1 for names in uids.values())


def test_only_existing_objects_change_and_a_node_always_exists() -> None:
    nodes: set[str] = set()
    for old, new in (change for seed in range(5) for change in changes(seed)):
        assert old is not None or new is not None
        for obj, there in ((old, False), (new, True)):
            if isinstance(obj, Node):
                (nodes.add if there else nodes.discard)(obj.metadata.name)
    assert nodes


def test_every_kind_is_created_changed_and_deleted() -> None:
    met = {
        (type(old or new).__name__, old is not None, new is not None)
        for seed in range(20)
        for old, new in changes(seed)
    }
    kinds = ("Node", "Pod", "Namespace", "Service", "StorageClass", "PersistentVolume", "PersistentVolumeClaim")
    for kind in (*kinds, "PriorityClass"):
        assert {(kind, False, True), (kind, True, True), (kind, True, False)} <= met


def test_nodes_and_pods_change_in_every_way() -> None:
    interned, happened = TemplateInterner(), set()
    for old, new in (change for seed in range(20) for change in changes(seed)):
        if isinstance(old, Node) and isinstance(new, Node):
            happened |= {update.name for update in node_updates(old, new)}
        elif isinstance(old, Pod) and isinstance(new, Pod):
            updates = pod_updates(PendingPod(old, interned), PendingPod(new, interned))
            place = "assigned" if new.spec.node_name else "waiting"
            happened |= {f"{place} {update.name}" for update in updates}
    of_a_node = {"ALLOCATABLE", "LABEL", "TAINT", "ANNOTATION"}
    of_a_pod = {"LABEL", "SCALE_DOWN", "TOLERATION"}
    assert {f"UPDATE_NODE_{each}" for each in of_a_node} <= happened
    assert {f"{place} UPDATE_POD_{each}" for place in ("assigned", "waiting") for each in of_a_pod} <= happened
    assert "waiting UPDATE_POD_SCHEDULING_GATES_ELIMINATED" in happened


def test_deadline_is_only_set_or_shortened() -> None:
    jobs = [with_values(WEB, "spec", active_deadline_seconds=seconds) for seconds in (None, 300, 600)]
    known: dict[str, int | None] = {}
    moved = set()
    for seed in range(5):
        course = RandomEvents(Random(seed), pods=jobs)
        for pod in pods_in(
            [message.obj for message in (*course.initial_messages(), *(course.next_message() for _ in range(300)))]
        ):
            uid, deadline = f"{seed}/{pod.metadata.uid}", pod.spec.active_deadline_seconds
            moved.add((known.get(uid, deadline), deadline))
            known[uid] = deadline
    assert moved == {(None, None), (300, 300), (600, 600), (None, 300), (None, 600), (600, 300)}


def test_immutable_fields_of_a_pod_are_kept() -> None:
    for old, new in (change for seed in range(10) for change in changes(seed)):
        if isinstance(old, Pod) and isinstance(new, Pod):
            assert fixed(old) == fixed(new)
            assert new.spec.tolerations[: len(old.spec.tolerations)] == old.spec.tolerations
            assert new.spec.scheduling_gates in (old.spec.scheduling_gates, ())


def fixed(pod: Pod) -> Pod:
    """Return of a pod only what never changes."""
    containers = tuple(msgspec.structs.replace(each, resources=None) for each in pod.spec.containers)
    spec = msgspec.structs.replace(pod.spec, containers=containers, tolerations=(), scheduling_gates=())
    metadata = msgspec.structs.replace(pod.metadata, labels={})
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=None)


def test_given_nodes_and_pods_are_mixed_in() -> None:
    objects = [message.obj for message in story(0)]
    assert objects[0] == GIVEN
    assert any(isinstance(obj, Pod) and obj.metadata.labels == {"app": "given"} for obj in objects)
    others = [obj for obj in objects if isinstance(obj, Node) and obj.metadata.name != "given"]
    lent = [obj for obj in others if obj.metadata.labels.get("disk") == "tape"]
    assert all(obj.metadata.labels["kubernetes.io/hostname"] == obj.metadata.name for obj in lent) and lent
    assert any(pod.spec.scheduling_gates and pod.spec.scheduling_gates[0].name == GATE for pod in pods_in(objects))
    assert any(pod.status.nominated_node_name for pod in pods_in(objects))
    assert any(isinstance(obj, Service) for obj in objects)


def pods_in(objects: list[ApiObject]) -> list[Pod]:
    return [obj for obj in objects if isinstance(obj, Pod)]


def test_scheduler_writes_change_the_cluster() -> None:
    course = RandomEvents(Random(0))
    waiting = next(
        pod for pod in pods_in([message.obj for message in course.initial_messages()]) if not pod.spec.node_name
    )
    uid = waiting.metadata.uid
    (nominated,) = course.nominate_pod(uid, "a")
    assert isinstance(nominated.obj, Pod) and nominated.obj.status.nominated_node_name == "a"
    assert not list(course.nominate_pod(uid, "a")), "nothing new"
    (bound,) = course.bind_pod(uid, "b")
    assert isinstance(bound.obj, Pod) and bound.obj.spec.node_name == "b"
    assert list(course.evict_pod(uid)) == [Deleted(bound.obj)]
    assert not [*course.bind_pod(uid, "b"), *course.nominate_pod(uid, "b"), *course.evict_pod(uid)], "it is gone"
