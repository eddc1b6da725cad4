"""What nodes and pods use is what they ask for."""

from __future__ import annotations

import kframework_load_aware.providers  # noqa: F401  # a plugin that declares the kind of usage to read it
import pytest
from msgspec.structs import replace

from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from tests.fake_api.local_api import LocalApi

METRICS = "/apis/metrics.k8s.io/v1beta1"


def pod(name: str, node: str, phase: str = "Running", **requests: str) -> Pod:
    created = make_pod(name, requests=requests, labels={"app": name})
    return replace(created, spec=replace(created.spec, node_name=node), status=replace(created.status, phase=phase))


async def test_pods_use_the_requests_of_their_containers() -> None:
    api = LocalApi(pod("a", "n1", cpu="1500u", memory="1Gi"), pod("b", "", "Pending", cpu="1"))
    actual = await api.call("GET", f"{METRICS}/pods")
    assert actual["kind"] == "PodMetricsList"
    assert [[each["usage"] for each in item["containers"]] for item in actual["items"]] == [
        [{"cpu": "2m", "memory": "1048576Ki"}],
        [],
    ]
    one = await api.call("GET", f"{METRICS}/namespaces/default/pods/a")
    assert (one["kind"], one["metadata"]["labels"], one["window"]) == ("PodMetrics", {"app": "a"}, "1m0s")
    chosen = await api.call("GET", f"{METRICS}/namespaces/default/pods", labelSelector="app=b")
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["b"]


async def test_nodes_use_the_requests_of_their_pods() -> None:
    api = LocalApi(
        *(make_node(name) for name in ("n1", "n2")),
        *(
            pod("a", "n1", cpu="1", memory="1Mi"),
            pod("b", "n1", cpu="500m", memory="1Mi"),
            pod("c", "n1", "Succeeded", cpu="9"),
        ),
    )

    async def used(name: str) -> tuple[str, str]:
        usage = (await api.call("GET", f"{METRICS}/nodes/{name}"))["usage"]
        return usage["cpu"], usage["memory"]

    assert (await used("n1"), await used("n2")) == (("1500m", "2048Ki"), ("0m", "0Ki"))
    api.cluster.add(pod("d", "n2", cpu="3", memory="1Mi"))
    assert await used("n2") == ("3000m", "1024Ki")


@pytest.mark.parametrize(("method", "path"), [("POST", "nodes"), ("PUT", "nodes/n1"), ("DELETE", "nodes/n1")])
async def test_usage_is_read_only(method: str, path: str) -> None:
    assert (await LocalApi(make_node("n1")).call_error(method, f"{METRICS}/{path}", {}))[0] == 405


async def test_usage_cannot_be_watched() -> None:
    assert (await LocalApi().call("GET", f"{METRICS}/nodes", watch="true"))["items"] == []
