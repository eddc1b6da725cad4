"""Requests tell what they are about, as Kubernetes reads them."""

from __future__ import annotations

import pytest

from kframework.client.request_attributes import Attributes, ResourcePath
from kframework.client.transport import Request


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/api/v1/nodes", ("v1", "", "nodes", "", "")),
        ("/api/v1/nodes/n1/status", ("v1", "", "nodes", "n1", "status")),
        ("/api/v1/namespaces", ("v1", "", "namespaces", "", "")),
        ("/api/v1/namespaces/a", ("v1", "", "namespaces", "a", "")),
        ("/api/v1/namespaces/a/status", ("v1", "", "namespaces", "a", "status")),
        ("/api/v1/namespaces/a/pods", ("v1", "a", "pods", "", "")),
        ("/api/v1/namespaces/a/pods/p/binding", ("v1", "a", "pods", "p", "binding")),
        ("/apis/apps/v1/namespaces/a/replicasets/r/", ("apps/v1", "a", "replicasets", "r", "")),
        ("/apis/apps/v1/replicasets", ("apps/v1", "", "replicasets", "", "")),
    ],
)
def test_paths_of_objects(path: str, read: tuple[str, ...]) -> None:
    assert ResourcePath.parse(path) == read


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps/v1", "/version", "/api/v1/nodes/n1/status/more"])
def test_path_of_no_resource_is_none(path: str) -> None:
    assert ResourcePath.parse(path) is None


COORDINATION = "coordination.k8s.io"
NAMED = (("fieldSelector", "metadata.name=a"),)


@pytest.mark.parametrize(
    ("method", "path", "query", "wanted"),
    [
        ("GET", "/api/v1/pods", (), Attributes("list", "", "pods")),
        ("GET", "/api/v1/pods", (("watch", "true"),), Attributes("watch", "", "pods")),
        ("GET", "/api/v1/pods", (("watch", "false"),), Attributes("list", "", "pods")),
        ("GET", "/api/v1/namespaces", (), Attributes("list", "", "namespaces")),
        ("GET", "/api/v1/namespaces/shop", (), Attributes("get", "", "namespaces", "shop", "shop")),
        ("HEAD", "/api/v1/namespaces/shop", (), Attributes("get", "", "namespaces", "shop", "shop")),
        ("PATCH", "/api/v1/namespaces/shop/status", (), Attributes("patch", "", "namespaces/status", "shop", "shop")),
        ("GET", "/api/v1/namespaces/shop/pods", (), Attributes("list", "", "pods", "shop")),
        ("GET", "/api/v1/nodes", NAMED, Attributes("list", "", "nodes", "", "a")),
        ("GET", "/api/v1/nodes", (("watch", "1"), *NAMED), Attributes("watch", "", "nodes", "", "a")),
        ("GET", "/api/v1/nodes", (("fieldSelector", "metadata.name!=a"),), Attributes("list", "", "nodes")),
        (
            "GET",
            "/api/v1/nodes",
            (("fieldSelector", "x=b,metadata.name==a"),),
            Attributes("list", "", "nodes", "", "a"),
        ),
        ("POST", "/api/v1/namespaces/shop/pods", NAMED, Attributes("create", "", "pods", "shop")),
        ("POST", "/api/v1/namespaces/a/pods/b/binding", (), Attributes("create", "", "pods/binding", "a", "b")),
        ("PATCH", "/api/v1/namespaces/a/pods/b/status", (), Attributes("patch", "", "pods/status", "a", "b")),
        (
            *("PUT", f"/apis/{COORDINATION}/v1/namespaces/a/leases/b", ()),
            Attributes("update", COORDINATION, "leases", "a", "b"),
        ),
        ("DELETE", "/apis/example.com/v1/quotas/all", (), Attributes("delete", "example.com", "quotas", "", "all")),
        ("DELETE", "/apis/example.com/v1/quotas", (), Attributes("deletecollection", "example.com", "quotas")),
        ("GET", "/healthz/ping", (), Attributes("get", path="/healthz/ping")),
        ("POST", "/apis/example.com/v1", (), Attributes("post", path="/apis/example.com/v1")),
    ],
)
def test_attributes_are_read_from_a_request(
    method: str, path: str, query: tuple[tuple[str, str], ...], wanted: Attributes
) -> None:
    assert Attributes.from_request(Request(method=method, path=path, query=query)) == wanted
