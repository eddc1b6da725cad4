"""Lists come in pages, each asked for with the token of the one before."""

from __future__ import annotations

import pytest

from kframework.clock import run_virtual
from kframework.cluster.listing import pages
from kframework.errors import ClusterError
from kframework.objects import Pod, kind_of
from tests.cluster.scripted import Scripted, listed, refused, some


def read(transport: Scripted, limit: int, namespace: str = "") -> list[list[str]]:
    async def main() -> list[list[str]]:
        found = pages(transport, kind_of(Pod), limit, namespace=namespace, selection=(("fieldSelector", "a!=b"),))
        return [[item.metadata.name for item in page.items] async for page in found]

    return run_virtual(main)


def test_pages() -> None:
    transport = Scripted(listed(5, some("a", 1), following="one"), listed(5, following="two"), listed(5, some("b", 2)))
    assert read(transport, 100, "shop") == [["a"], [], ["b"]]
    assert {request.path for request in transport.requests} == {"/api/v1/namespaces/shop/pods"}
    first = (("fieldSelector", "a!=b"), ("limit", "100"))
    assert [request.query for request in transport.requests] == [
        first,
        (*first, ("continue", "one")),
        (*first, ("continue", "two")),
    ]


def test_all_at_once() -> None:
    transport = Scripted(listed(5, some("a", 1)))
    assert read(transport, 0) == [["a"]]
    assert transport.requests[0].query == (("fieldSelector", "a!=b"),)


def test_an_expired_token() -> None:
    transport = Scripted(listed(5, some("a", 1), following="one"), refused(410, "Expired"))
    with pytest.raises(ClusterError) as caught:
        read(transport, 1)
    assert caught.value.status == 410
