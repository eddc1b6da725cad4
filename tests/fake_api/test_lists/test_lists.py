"""Lists and their pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.clock import run_virtual
from kframework.fake_api import collection
from kframework.objects import Lease, ObjectMeta
from tests.fake_api.local_api import Json, LocalApi

LEASES = "/apis/coordination.k8s.io/v1/leases"


def lease(name: str, namespace: str = "default", **labels: str) -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels))


def names(page: Json) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


async def test_list_has_its_version() -> None:
    api = LocalApi(lease("b"), lease("a"), lease("c", "other"))
    whole = await api.call("GET", LEASES)
    assert (whole["kind"], whole["apiVersion"]) == ("LeaseList", "coordination.k8s.io/v1")
    assert names(whole) == ["a", "b", "c"]
    assert whole["metadata"] == {"resourceVersion": str(api.cluster.version)}
    assert names(await api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/other/leases")) == ["c"]
    assert names(await api.call("GET", "/apis/coordination.k8s.io/v1/namespaces/none/leases")) == []


async def test_pages_show_the_version_of_the_first() -> None:
    api = LocalApi(*(lease(name) for name in "abcde"))
    first = await api.call("GET", LEASES, limit=2)
    api.cluster.remove(Lease, "c", "default")
    api.cluster.add(lease("ca"))
    api.cluster.put(lease("d", "default", new="yes"))
    second = await api.call("GET", LEASES, limit=2, continue_=first["metadata"]["continue"])
    third = await api.call("GET", LEASES, limit=2, continue_=second["metadata"]["continue"])
    assert [names(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert "labels" not in second["items"][1]["metadata"]
    assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
    assert "continue" not in third["metadata"]


async def test_exactly_full_page_is_the_last() -> None:
    api = LocalApi(lease("a"), lease("b", app="x"), lease("c"))
    assert "continue" not in (await api.call("GET", LEASES, limit=3))["metadata"]
    page = await api.call("GET", LEASES, limit=1, labelSelector="app=x")
    assert (names(page), "continue" in page["metadata"]) == (["b"], False)


@pytest.mark.parametrize(
    ("query", "remaining"),
    [
        ({"limit": 1}, 3),
        ({"limit": 1, "namespace": "default"}, 2),
        ({"limit": 1, "labelSelector": "app"}, None),
        ({"limit": 4}, None),
        ({"limit": -1}, None),
    ],
)
async def test_remaining_items_are_counted(query: dict[str, Any], remaining: int | None) -> None:
    api = LocalApi(lease("a", app="x"), lease("b", app="x"), lease("c"), lease("d", "other"))
    namespace = query.pop("namespace", "")
    path = LEASES.replace("/leases", f"/namespaces/{namespace}/leases") if namespace else LEASES
    assert (await api.call("GET", path, **query))["metadata"].get("remainingItemCount") == remaining


async def test_negative_limit_is_no_limit() -> None:
    api = LocalApi(lease("a"), lease("b"))
    assert names(await api.call("GET", LEASES, limit=-1)) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Newer", "resourceVersion": "1"},
            'Unsupported value: "Newer": supported values: "Exact", "NotOlderThan", ""',
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "continue_": "x"},
            "Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
    ],
)
async def test_exclusive_options_are_rejected(query: dict[str, str], why: str) -> None:
    message = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: {why}'
    assert await LocalApi().call_error("GET", LEASES, **query) == (422, "Invalid", message)


async def test_resource_version_selects_the_list() -> None:
    api = LocalApi(lease("a"))
    version = (await api.call("GET", LEASES))["metadata"]["resourceVersion"]
    api.cluster.add(lease("b"))
    assert names(await api.call("GET", LEASES, resourceVersion=version, resourceVersionMatch="Exact")) == ["a"]
    assert names(await api.call("GET", LEASES, resourceVersion=version)) == ["a", "b"]
    assert names(await api.call("GET", LEASES, resourceVersion="0")) == ["a", "b"]


async def test_object_is_listed_by_its_name() -> None:
    api = LocalApi(lease("a"), lease("b"), lease("a", "other"))
    by_name = {"fieldSelector": "metadata.name=a"}
    assert len((await api.call("GET", LEASES, **by_name))["items"]) == 2
    in_namespace = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    assert names(await api.call("GET", in_namespace, **by_name)) == ["a"]
    assert names(await api.call("GET", in_namespace, fieldSelector="metadata.name=z")) == []
    assert names(await api.call("GET", "/api/v1/namespaces", fieldSelector="metadata.name=default")) == ["default"]


async def test_invalid_query_is_rejected() -> None:
    api = LocalApi(*(lease(name) for name in "abc"))
    token = (await api.call("GET", LEASES, limit=1))["metadata"]["continue"]
    version = api.cluster.version
    status, reason, message = await api.call_error("GET", LEASES, resourceVersion=version + 5)
    assert (status, reason) == (504, "Timeout")
    assert message == f"Timeout: Too large resource version: {version + 5}, current: {version}"
    for query in ({"limit": "x"}, {"limit": "-x"}, {"resourceVersion": "1.5"}, {"continue_": "nonsense"}):
        assert (await api.call_error("GET", LEASES, **query))[:2] == (400, "BadRequest")
    assert (await LocalApi().call_error("GET", LEASES, limit=1, continue_=token))[:2] == (410, "Expired")


async def test_expired_page_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "HISTORY", 3)
    api = LocalApi(*(lease(name) for name in "abc"))
    token = (await api.call("GET", LEASES, limit=1))["metadata"]["continue"]
    for turn in range(3):
        api.cluster.put(lease("a", turn=str(turn)))
    assert names(await api.call("GET", LEASES, limit=2, continue_=token)) == ["b", "c"]
    api.cluster.put(lease("a", turn="last"))
    assert (await api.call_error("GET", LEASES, limit=2, continue_=token))[:2] == (410, "Expired")


@given(st.lists(st.sampled_from("abcdefgh"), max_size=8), st.integers(1, 4), st.lists(st.sampled_from("abcdefgh")))
def test_pages_together_are_the_list(first: list[str], limit: int, changes: list[str]) -> None:
    async def main() -> None:
        api = LocalApi(*(lease(name) for name in dict.fromkeys(first)))
        whole = names(await api.call("GET", LEASES))
        page = await api.call("GET", LEASES, limit=limit)
        recorded = names(page)
        todo = list(changes)
        while token := page["metadata"].get("continue"):
            for name in todo[:2]:
                if api.cluster.find(Lease, name, "default") is None:
                    api.cluster.add(lease(name))
                else:
                    api.cluster.remove(Lease, name, "default")
            todo = todo[2:]
            page = await api.call("GET", LEASES, limit=limit, continue_=token)
            assert len(page["items"]) <= limit
            recorded += names(page)
        assert recorded == whole

    run_virtual(main)
