"""A fake API beside a program answers over HTTP, and ends with it."""

from __future__ import annotations

import json
import ssl
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import anyio.to_thread
import pytest
from lightkube import ApiError
from lightkube.resources.core_v1 import Node as LightNode
from lightkube.resources.core_v1 import Pod as LightPod

from kframework import ClusterError, FakeApi, InputError
from kframework.fake_api.access import RbacSubject, RoleBinding, RoleRef
from kframework.objects import Namespace, Node, ObjectMeta, Pod
from kframework.testing import User, fake_api, make_node, make_pod


def names(url: str, tls: ssl.SSLContext | None = None) -> list[str]:
    with urlopen(f"{url}/api/v1/nodes", timeout=10, context=tls) as answer:
        return [each["metadata"]["name"] for each in json.load(answer)["items"]]


def test_given_and_added_objects_are_served() -> None:
    with FakeApi([make_node("a")]) as api:
        api.add(make_node("b"))
        assert names(api.url) == ["a", "b"] == [node.metadata.name for node in api.objects(Node)]
        assert api.url in api.kubeconfig.read_text()
        with pytest.raises(ClusterError, match="already exists"):
            api.add(make_node("b"))
    assert not api.kubeconfig.exists()
    with pytest.raises(URLError):
        names(api.url)


@pytest.mark.blocks_loop  # its thread writes a kubeconfig when it begins
async def test_fake_api_works_inside_a_running_loop(request: pytest.FixtureRequest) -> None:
    api: FakeApi = request.getfixturevalue("fake_api")
    await anyio.to_thread.run_sync(api.add, make_node("a"))
    assert await anyio.to_thread.run_sync(names, api.url) == ["a"]


def test_startup_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise OSError("no port is left")

    monkeypatch.setattr("kframework.fake_api.http_server.LocalCluster", refuse)
    with pytest.raises(OSError, match="no port is left"), FakeApi():
        pass


def test_cluster_file_is_served() -> None:
    with FakeApi("examples/clusters/tiny.yaml") as api:
        assert names(api.url) == ["left", "right"]


def test_unreadable_file_is_an_error_at_once() -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        FakeApi("nowhere.yaml")


def test_clients_trust_the_certificate() -> None:
    with FakeApi([make_node("a")], tls=True) as api:
        assert api.url.startswith("https://127.0.0.1:")
        with api.clients.lightkube() as client:
            assert [each.metadata and each.metadata.name for each in client.list(LightNode)] == ["a"]
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            names(api.url)


def test_tokens_and_roles_limit_access() -> None:
    with fake_api([make_node("a")], tokens={"secret": User("ann", ("dev",))}, rbac=True) as api:
        ref, subject = RoleRef(kind="ClusterRole", name="view"), RbacSubject(kind="Group", name="dev")
        api.add(RoleBinding(metadata=ObjectMeta(name="dev", namespace="shop"), role_ref=ref, subjects=(subject,)))
        with api.clients_for("secret").lightkube() as client:
            assert list(client.list(LightPod, namespace="shop")) == []
            with pytest.raises(ApiError, match='User "ann" cannot list resource "nodes"'):
                list(client.list(LightNode))
        with pytest.raises(HTTPError, match="403"):
            names(api.url, ssl._create_unverified_context())


def test_kubeconfigs_of_other_clients_are_removed() -> None:
    with fake_api(tokens={"secret": User("ann")}) as api:
        api.clients_for("secret")
        folder, stem = api.kubeconfig.parent, api.kubeconfig.stem
        (other,) = folder.glob(f"{stem}-*.yaml")
        assert other.stat().st_mode & 0o077 == 0
    assert not list(folder.glob(f"{stem}*"))


def test_reset_restores_the_first_state() -> None:
    with FakeApi([make_node("a")]) as api:
        api.add(make_node("b"), Namespace(metadata=ObjectMeta(name="shop")), make_pod("web", namespace="shop"))
        with api.clients.lightkube() as client:
            events = client.watch(LightNode)
            assert [told(next(events)) for _ in range(2)] == ["ADDED a", "ADDED b"]
            api.reset()
            assert [told(next(events)) for _ in range(3)] == ["DELETED a", "DELETED b", "ADDED a"]
        assert names(api.url) == ["a"]
        assert api.objects(Pod) == []
        assert "shop" not in [each.metadata.name for each in api.objects(Namespace)]


def told(event: tuple[str, LightNode]) -> str:
    kind, node = event
    return f"{kind} {node.metadata and node.metadata.name}"
