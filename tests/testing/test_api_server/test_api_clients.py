"""Ready clients reach the cluster that their kubeconfig names."""

# mypy: disable-error-code="union-attr"
# The libraries say of each field of an answer that it may be absent.

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kframework import FakeApi
from kframework.testing import fake_api, make_pod


@pytest.fixture(scope="module")
def api() -> Iterator[FakeApi]:
    with fake_api([make_pod("web")]) as served:
        yield served


def test_kubernetes_client_reads_the_cluster(api: FakeApi) -> None:
    from kubernetes import client

    with api.clients.kubernetes() as connection:
        assert [pod.metadata.name for pod in client.CoreV1Api(connection).list_namespaced_pod("default").items] == [
            "web"
        ]


@pytest.mark.blocks_loop  # it reads the kubeconfig
async def test_kubernetes_asyncio_client_reads_the_cluster(api: FakeApi) -> None:
    from kubernetes_asyncio import client

    async with await api.clients.kubernetes_asyncio() as connection:
        assert [
            pod.metadata.name for pod in (await client.CoreV1Api(connection).list_namespaced_pod("default")).items
        ] == ["web"]


def test_lightkube_client_reads_the_cluster(api: FakeApi) -> None:
    from lightkube.resources.core_v1 import Pod

    with api.clients.lightkube() as client:
        assert [pod.metadata.name for pod in client.list(Pod)] == ["web"]


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Kubernetes version",  # it has not heard of 1.36
    "ignore::pytest.PytestUnraisableExceptionWarning",  # it never closes its connections
)
def test_kr8s_client_reads_the_cluster(api: FakeApi) -> None:
    from kr8s.objects import Pod

    assert Pod.get("web", api=api.clients.kr8s()).name == "web"
    gc.collect()


def test_kopf_connects_to_the_cluster(api: FakeApi) -> None:
    info = api.clients.kopf()
    assert (info.server, info.token, info.ca_data) == (api.url, None, None)
