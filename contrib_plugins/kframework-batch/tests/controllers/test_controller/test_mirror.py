"""A mirror keeps the latest of each object, and knows whom it concerns."""

from __future__ import annotations

from collections.abc import Iterable

from kframework_batch.controllers.controller import Mirror
from msgspec.structs import replace

from kframework.objects import ApiObject, Node, Pod
from kframework.testing import make_node, make_pod


def by_node(obj: ApiObject) -> Iterable[str]:
    return (obj.spec.node_name,) if isinstance(obj, Pod) and obj.spec.node_name else ()


def at(version: str, name: str = "a", *, node: str = "n", uid: str = "u") -> Pod:
    pod = make_pod(name, node_name=node)
    return replace(pod, metadata=replace(pod.metadata, uid=uid, resource_version=version))


def test_objects_are_found_by_name_and_by_subject() -> None:
    mirror = Mirror(by_node)
    assert mirror.put(at("1")) is None
    assert mirror.find(Pod, "a", "default") == at("1")
    assert mirror.find(Node, "a") is None
    assert mirror.for_subject("n", Pod) == [at("1")]
    assert mirror.for_subject("n", Node) == []


def test_later_version_replaces_earlier_version_only() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    later = at("10", node="other")
    assert mirror.put(later) == at("9")
    assert mirror.put(at("9")) == at("9")  # handed back: nothing new
    assert mirror.put(later) is later
    assert mirror.find(Pod, "a", "default") is later
    assert (mirror.for_subject("n", Pod), mirror.for_subject("other", Pod)) == ([], [later])


def test_non_numeric_versions_are_compared_for_equality() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("x"))
    again, other = at("x"), at("w")
    assert mirror.put(again) is again
    assert mirror.put(other) == at("x")


def test_object_with_other_uid_replaces_regardless_of_version() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    assert mirror.put(at("3", uid="v")) == at("9")
    mirror.drop(at("9"))
    assert mirror.for_subject("n", Pod) == [at("3", uid="v")]


def test_dropped_object_is_returned_and_stays_deleted() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    assert mirror.drop(at("", node="")) == at("9")
    late = at("9")
    assert mirror.put(late) is late
    assert mirror.find(Pod, "a", "default") is None
    assert mirror.for_subject("n", Pod) == []
    mirror.put(at("11"))  # made again, out of the same file
    assert mirror.put(at("10")) == at("10")
    assert mirror.find(Pod, "a", "default") == at("11")


def test_deleted_object_does_not_replace_its_successor() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    mirror.drop(at("9"))
    mirror.put(at("11", uid="v"))
    mirror.put(at("8"))
    assert mirror.find(Pod, "a", "default") == at("11", uid="v")


def test_objects_of_a_subject_are_in_order_of_arrival() -> None:
    mirror = Mirror(by_node)
    for name in ("b", "a", "c"):
        mirror.put(at("1", name, uid=name))
    mirror.put(at("2", "b", uid="b"))
    mirror.put(make_node("n"))
    assert [pod.metadata.name for pod in mirror.for_subject("n", Pod)] == ["b", "a", "c"]
