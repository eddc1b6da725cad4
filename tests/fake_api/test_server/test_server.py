"""Which request is answered how."""

from __future__ import annotations

import pytest
import yaml

from kframework.client.transport import JSON
from kframework.fake_api.wire.yaml_bodies import YAML
from tests.fake_api.local_api import NODES, PODS, LocalApi, node, pod, request

UNKNOWN = (404, "NotFound", "the server could not find the requested resource")
NOT_ALLOWED = (405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/nonsense"),
        ("GET", "/api/v1/namespaces/default/nodes"),
        ("GET", "/api/v1/pods/web"),
        ("POST", f"{NODES}/n1/binding"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l/status"),
    ],
)
async def test_unknown_paths_are_not_found(method: str, path: str) -> None:
    assert await LocalApi().call_error(method, path) == UNKNOWN


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/version"),
        ("POST", "/api/v1/pods"),
        ("POST", f"{PODS}/web"),
        ("PUT", PODS),
        ("PATCH", NODES),
        ("DELETE", f"{NODES}/n1/status"),
        ("PUT", f"{PODS}/web/binding"),
        ("OPTIONS", PODS),
    ],
)
async def test_unsupported_methods_are_not_allowed(method: str, path: str) -> None:
    assert await LocalApi().call_error(method, path, {}) == NOT_ALLOWED


async def test_every_kind_of_path_is_answered() -> None:
    api = LocalApi()
    await api.call("POST", NODES, node())
    await api.call("POST", PODS, pod())
    assert (await api.call("GET", f"{NODES}/n1"))["kind"] == "Node"
    assert (await api.call("GET", f"{NODES}/n1/status"))["kind"] == "Node"
    assert (await api.call("GET", NODES))["kind"] == "NodeList"
    assert [each["metadata"]["name"] for each in (await api.call("GET", "/api/v1/pods"))["items"]] == ["web"]
    assert (await api.call("GET", "/api/v1/namespaces/default/status"))["kind"] == "Namespace"


async def test_failure_names_its_subject() -> None:
    response = await LocalApi().send("GET", "/apis/apps/v1/namespaces/default/replicasets/r")
    assert b'"details":{"group":"apps","kind":"replicasets","name":"r"}' in response.body


async def test_unsupported_form_is_not_acceptable() -> None:
    refused = await LocalApi().call_error("GET", PODS, accept="application/vnd.kubernetes.protobuf")
    assert refused[:2] == (406, "NotAcceptable")


async def test_yaml_is_read_and_written() -> None:
    api = LocalApi()
    body = b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - {name: c, image: nginx}\n"
    created = await api.send("POST", PODS, body, content_type=YAML, accept=f"{YAML},{JSON}")
    assert (created.status, created.headers["content-type"]) == (201, YAML)
    assert created.body.startswith(b"apiVersion: v1\nkind: Pod\nmetadata:\n")
    actual = await api.send("GET", f"{PODS}/web", accept=f"{JSON};q=0.1,{YAML}")
    assert yaml.safe_load(actual.body) == await api.call("GET", f"{PODS}/web")
    put = await api.send("PUT", f"{PODS}/web", actual.body, content_type=f"{YAML}; charset=utf-8")
    assert (put.status, put.headers["content-type"]) == (200, JSON)
    missing = await api.send("GET", f"{PODS}/none", accept=YAML)
    assert (missing.status, yaml.safe_load(missing.body)["reason"]) == (404, "NotFound")
    assert yaml.safe_load((await api.send("GET", "/api", accept=YAML)).body)["kind"] == "APIVersions"
    assert (await api.send("GET", "/healthz", accept=YAML)).headers["content-type"].startswith("text/plain")


async def test_invalid_yaml_is_rejected() -> None:
    refused = await LocalApi().call_error("POST", PODS, b"a: [", content_type=YAML)
    assert refused[:2] == (400, "BadRequest")
    assert refused[2].startswith("error decoding YAML: ")


async def test_watch_in_yaml_is_not_acceptable() -> None:
    refused = await LocalApi().send("GET", PODS, accept=YAML, watch="true")
    assert refused.status == 406
    assert b"application/json;stream=watch" in refused.body


async def test_watch_is_rejected_by_answer() -> None:
    assert (await LocalApi().call_error("GET", PODS, watch="true"))[:2] == (400, "BadRequest")


async def test_follow_answers_other_requests_at_once() -> None:
    api = LocalApi()
    async with api.server.follow(request("GET", "/version")) as stream:
        lines = [line async for line in stream.lines]
    assert stream.status == 200
    assert lines == [(await api.send("GET", "/version")).body]
