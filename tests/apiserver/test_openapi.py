"""As much of OpenAPI as kubectl needs."""

from __future__ import annotations

import pytest

from kframework.clock import VirtualTimeLoop
from tests.apiserver.serving import Served


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_version_2() -> None:
    served = Served()
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    response = await served.send("GET", "/openapi/v2", accept=accept)
    assert (response.status, response.body) == (200, b"")
    assert (await served.ask("GET", "/openapi/v2"))["swagger"] == "2.0"


async def test_version_3() -> None:
    served = Served()
    index = await served.ask("GET", "/openapi/v3")
    url = index["paths"]["api/v1"]["serverRelativeURL"]
    description = await served.ask("GET", url)
    patch = description["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
    for place in index["paths"]:
        assert (await served.ask("GET", f"/openapi/v3/{place}"))["openapi"] == "3.0.0"
    assert (
        "/apis/storage.k8s.io/v1/storageclasses/{name}"
        in (await served.ask("GET", "/openapi/v3/apis/storage.k8s.io/v1"))["paths"]
    )
    assert (await served.refused("GET", "/openapi/v3/apis/nonsense/v1"))[:2] == (404, "NotFound")
