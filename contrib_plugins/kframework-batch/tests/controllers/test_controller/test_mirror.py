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


def test_what_is_put_in_is_found_by_name_and_by_whom_it_concerns() -> None:
    mirror = Mirror(by_node)
    assert mirror.put(at("1")) is None
    assert mirror.find(Pod, "a", "default") == at("1")
    assert mirror.find(Node, "a") is None
    assert mirror.for_subject("n", Pod) == [at("1")]
    assert mirror.for_subject("n", Node) == []


def test_a_later_version_takes_the_place_of_an_earlier_one_and_never_the_other_way() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    later = at("10", node="other")
    assert mirror.put(later) == at("9")
    assert mirror.put(at("9")) == at("9")  # handed back: nothing new
    assert mirror.put(later) is later
    assert mirror.find(Pod, "a", "default") is later
    assert (mirror.for_subject("n", Pod), mirror.for_subject("other", Pod)) == ([], [later])


def test_versions_that_are_no_numbers_differ_or_do_not() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("x"))
    again, other = at("x"), at("w")
    assert mirror.put(again) is again
    assert mirror.put(other) == at("x")


def test_another_object_of_the_name_takes_the_place_whatever_its_version() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    assert mirror.put(at("3", uid="v")) == at("9")
    mirror.drop(at("9"))
    assert mirror.for_subject("n", Pod) == [at("3", uid="v")]


def test_what_is_dropped_is_returned_as_it_was_known_and_does_not_come_back() -> None:
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


def test_what_has_gone_does_not_take_the_place_of_its_successor() -> None:
    mirror = Mirror(by_node)
    mirror.put(at("9"))
    mirror.drop(at("9"))
    mirror.put(at("11", uid="v"))
    mirror.put(at("8"))
    assert mirror.find(Pod, "a", "default") == at("11", uid="v")


def test_the_order_is_that_in_which_objects_came() -> None:
    mirror = Mirror(by_node)
    for name in ("b", "a", "c"):
        mirror.put(at("1", name, uid=name))
    mirror.put(at("2", "b", uid="b"))
    mirror.put(make_node("n"))
    assert [pod.metadata.name for pod in mirror.for_subject("n", Pod)] == ["b", "a", "c"]
