"""Pages and watch lines are decoded into their structs, object by object where one does not fit."""

from __future__ import annotations

import pytest

from kframework.client.wire import PageReader, UndecodableObject, list_pages, read_event, read_object
from kframework.clock import run_virtual
from kframework.errors import ClusterError
from kframework.objects import Node, Pod, StorageClass, kind_of
from tests.client.scripted import Scripted, bookmark, failed, happened, listed, refused, some

PODS = kind_of(Pod)
BROKEN = some("broken", 7, spec={"containers": [{"name": 5}]})
WHY = "spec.containers[0].name: expected a string, got an integer; put it in quotes"


def names(items: list[Pod | UndecodableObject]) -> list[str]:
    return [("!" if isinstance(item, UndecodableObject) else "") + item.metadata.name for item in items]


def test_page_is_decoded() -> None:
    page = PageReader(PODS).read(listed(9, some("a", 3), some("b", 4), following="more").body)
    assert (names(page.items), page.version, page.continue_token) == (["a", "b"], "9", "more")


@pytest.mark.parametrize("body", [b"{}", b'{"metadata": {}, "items": null}', b'{"items": []}'])
def test_empty_page_decodes(body: bytes) -> None:
    page = PageReader(PODS).read(body)
    assert (page.items, page.version, page.continue_token) == ([], "", "")


def test_page_with_nulls() -> None:
    page = PageReader(PODS).read(listed(9, some("a", 3, spec=None, status={"conditions": None})).body)
    assert names(page.items) == ["a"]


def test_page_with_an_undecodable_object_decodes_the_others() -> None:
    page = PageReader(PODS).read(listed(9, some("a", 3), BROKEN, some("c", 4), following="more").body)
    assert (names(page.items), page.version, page.continue_token) == (["a", "!broken", "c"], "9", "more")
    undecodable = page.items[1]
    assert isinstance(undecodable, UndecodableObject)
    assert (undecodable.metadata.uid, undecodable.problem) == ("broken-uid", WHY)


def test_equal_parts_of_pods_are_one_struct() -> None:
    reader = PageReader(PODS)
    specs = [{"containers": [{"name": name}]} for name in ("x", "y", "x")]
    pages = [reader.read(listed(9, some(f"a-{number}", 3, spec=spec)).body) for number, spec in enumerate(specs)]
    first, other, second = (pod for page in pages for pod in page.items if isinstance(pod, Pod))
    assert first.spec is second.spec and first.spec != other.spec
    assert first.status is other.status
    assert first.metadata.labels is other.metadata.labels and first.metadata.namespace is other.metadata.namespace


def test_equal_resources_of_nodes_are_one_mapping() -> None:
    sizes = ({"cpu": "4"}, {"cpu": "8"}, {"cpu": "4"})
    nodes = [some(f"n-{number}", 3, status={"allocatable": size}) for number, size in enumerate(sizes)]
    page = PageReader(kind_of(Node)).read(listed(9, *nodes).body)
    first, other, second = (node for node in page.items if isinstance(node, Node))
    assert first.status.allocatable is second.status.allocatable != other.status.allocatable


NOT_UTF_8 = b'{"metadata": {"resourceVersion": "\xff"}}'


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": {}}', b'{"items": [], "metadata": 5}', NOT_UTF_8])
def test_invalid_page_is_an_error(body: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot decode the API server's response: "):
        PageReader(PODS).read(body)


@pytest.mark.parametrize("event", ["ADDED", "MODIFIED", "DELETED"])
def test_event_is_decoded(event: str) -> None:
    seen, subject = read_event(happened(event, some("a", 3)), PODS)
    assert (seen, type(subject), subject.metadata.resource_version) == (event, Pod, "3")


def test_bookmark_carries_a_version_only() -> None:
    event, subject = read_event(bookmark(12), kind_of(Node))
    assert (event, subject.metadata.resource_version) == ("BOOKMARK", "12")


def test_event_of_an_undecodable_object_names_it() -> None:
    event, subject = read_event(happened("MODIFIED", BROKEN), PODS)
    assert (event, subject.metadata.name, subject.metadata.resource_version) == ("MODIFIED", "broken", "7")
    assert isinstance(subject, UndecodableObject)
    assert subject.problem == WHY


@pytest.mark.parametrize("struct", [Pod, StorageClass])  # a Pod's status is no text, as a Status' is
def test_error_event_is_raised(struct: type[Pod] | type[StorageClass]) -> None:
    with pytest.raises(ClusterError) as caught:
        read_event(failed(410, "Expired"), kind_of(struct))
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


def test_error_event_without_a_status() -> None:
    with pytest.raises(ClusterError) as caught:
        read_event(happened("ERROR", {}), PODS)
    assert (caught.value.status, caught.value.retryable) == (500, True)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"{}", b'{"type": "ADDED"}', b'{"type": 5, "object": {}}', b'{"type": "\xff"}']
)
def test_invalid_event_is_an_error(line: bytes) -> None:
    with pytest.raises(ClusterError, match="cannot decode the API server's response: "):
        read_event(line, PODS)


def test_undecodable_object_without_metadata_is_nameless() -> None:
    undecodable = read_object(b'{"metadata": 5}', PODS)
    assert isinstance(undecodable, UndecodableObject)
    assert undecodable.metadata.name == ""
    assert isinstance(read_object(refused(404).body, PODS), UndecodableObject)


def read(transport: Scripted, limit: int, namespace: str = "") -> list[list[str]]:
    async def main() -> list[list[str]]:
        found = list_pages(transport, kind_of(Pod), limit, namespace=namespace, selection=(("fieldSelector", "a!=b"),))
        return [[item.metadata.name for item in page.items] async for page in found]

    return run_virtual(main)


def test_pages_are_read_until_the_last() -> None:
    transport = Scripted(listed(5, some("a", 1), following="one"), listed(5, following="two"), listed(5, some("b", 2)))
    assert read(transport, 100, "shop") == [["a"], [], ["b"]]
    assert {request.path for request in transport.requests} == {"/api/v1/namespaces/shop/pods"}
    first = (("fieldSelector", "a!=b"), ("limit", "100"))
    assert [request.query for request in transport.requests] == [
        first,
        (*first, ("continue", "one")),
        (*first, ("continue", "two")),
    ]


def test_limit_zero_reads_one_page() -> None:
    transport = Scripted(listed(5, some("a", 1)))
    assert read(transport, 0) == [["a"]]
    assert transport.requests[0].query == (("fieldSelector", "a!=b"),)


def test_expired_token_is_an_error() -> None:
    transport = Scripted(listed(5, some("a", 1), following="one"), refused(410, "Expired"))
    with pytest.raises(ClusterError) as caught:
        read(transport, 1)
    assert caught.value.status == 410
