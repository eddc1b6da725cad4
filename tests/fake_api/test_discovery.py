"""What clients find out before they do anything."""

from __future__ import annotations

import pytest

from kframework.fake_api.resources import built_in_kinds
from kframework.objects import all_kinds
from kframework.process.http.health import PLAIN
from tests.fake_api.local_api import Json, LocalApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.mark.parametrize(("minor", "number"), [("1.36", "36"), ("1.37", "37")])
async def test_version_is_that_of_the_minor(minor: str, number: str) -> None:
    version = await LocalApi(minor=minor).call("GET", "/version")
    assert (version["major"], version["minor"]) == ("1", number)
    assert version["gitVersion"].startswith(f"v{minor}.")
    assert (version["emulationMajor"], version["emulationMinor"]) == ("1", number)


@pytest.mark.parametrize(("minor", "is_served"), [("1.36", False), ("1.37", True)])
async def test_rules_that_taint_devices_are_served_since_1_37(minor: str, is_served: bool) -> None:
    api = LocalApi(minor=minor)
    resources = {each["name"] for each in (await api.call("GET", "/apis/resource.k8s.io/v1"))["resources"]}
    names = {"devicetaintrules", "devicetaintrules/status"}
    assert resources & names == (names if is_served else set())
    assert (await api.send("GET", "/apis/resource.k8s.io/v1/devicetaintrules")).status == (200 if is_served else 404)


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3/api/v1"])
async def test_openapi_documents_have_the_version_of_the_server(path: str) -> None:
    api = LocalApi()
    version = (await api.call("GET", "/version"))["gitVersion"]
    assert (await api.call("GET", path))["info"]["version"] == version


async def test_core_group_is_served() -> None:
    answer = await LocalApi().call("GET", "/api")
    assert (answer["kind"], answer["versions"]) == ("APIVersions", ["v1"])


async def test_groups_are_listed() -> None:
    api = LocalApi()
    groups = {group["name"]: group for group in (await api.call("GET", "/apis"))["groups"]}
    served_kinds = (*(each.api_version for each in built_in_kinds()), *(kind.api_version for kind in all_kinds()))
    assert groups.keys() == {api_version.rpartition("/")[0] for api_version in served_kinds} - {""} | {"metrics.k8s.io"}
    apps = {"groupVersion": "apps/v1", "version": "v1"}
    assert groups["apps"] == {"name": "apps", "versions": [apps], "preferredVersion": apps}
    assert await api.call("GET", "/apis/apps") == {"apiVersion": "v1", "kind": "APIGroup", **groups["apps"]}
    assert (await api.send("GET", "/apis/nonsense")).status == 404


async def test_stable_versions_are_preferred() -> None:
    api = LocalApi()
    schema = {"openAPIV3Schema": {"type": "object"}}
    names = ("v1alpha1", "v1", "v1beta1")
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in names]
    spec = {
        "group": "example.dev",
        "names": {"kind": "Thing", "plural": "things"},
        "scope": "Cluster",
        "versions": versions,
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.call("POST", path, {"metadata": {"name": "things.example.dev"}, "spec": spec})
    group = await api.call("GET", "/apis/example.dev")
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1", "v1alpha1"]
    assert group["preferredVersion"]["version"] == "v1"


async def test_resources_of_a_version_are_listed() -> None:
    api = LocalApi()
    listed = await api.call("GET", "/api/v1")
    assert (listed["kind"], listed["groupVersion"]) == ("APIResourceList", "v1")
    actual = {each["name"]: each for each in listed["resources"]}
    assert actual["pods"]["shortNames"] == ["po"]
    assert (actual["pods"]["namespaced"], actual["nodes"]["namespaced"]) == (True, False)
    assert {"pods/status", "pods/binding", "pods/eviction", "nodes/status", "events"} <= actual.keys()
    eviction = actual["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    events = await api.call("GET", "/apis/events.k8s.io/v1")
    assert [each["name"] for each in events["resources"]] == ["events"]
    for path in ("/api/v2", "/apis/apps/v2"):
        assert (await api.call_error("GET", path))[:2] == (404, "NotFound")


def described(answer: Json) -> dict[tuple[str, str, str], Json]:
    """List what is described: (group, version, plural) -> resource."""
    return {
        (group["metadata"].get("name", ""), version["version"], resource["resource"]): resource
        for group in answer["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_lists_everything(version: str) -> None:
    api = LocalApi(gates={"AllAlpha": True, "GenericWorkload": True})
    accept = f"{AGGREGATED.format(version)},application/json"
    response = await api.send("GET", "/apis", accept=accept)
    assert response.headers["content-type"] == AGGREGATED.format(version)
    answers = [await api.call("GET", path, accept=accept) for path in ("/api", "/apis")]
    assert {answer["apiVersion"] for answer in answers} == {f"apidiscovery.k8s.io/{version}"}
    actual = described(answers[0]) | described(answers[1])
    for kind in all_kinds():
        group, _, kind_version = kind.api_version.rpartition("/")
        resource = actual[group, kind_version, kind.plural]
        assert resource["responseKind"] == {"group": group, "version": kind_version, "kind": kind.name}
        assert resource["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    pods = actual["", "v1", "pods"]
    subresources = [each["subresource"] for each in pods["subresources"]]
    assert subresources == [
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "resize",
        "status",
    ]
    assert "watch" in pods["verbs"]


READY = """\
[+]ping ok
[+]log ok
[+]etcd excluded: ok
[+]etcd-readiness ok
[+]informer-sync ok
[+]shutdown ok
readyz check passed
"""


@pytest.mark.parametrize(
    ("path", "query", "text"),
    [
        *((f"/{endpoint}", {}, "ok") for endpoint in ("healthz", "livez", "readyz")),
        ("/livez", {"verbose": ""}, "[+]ping ok\n[+]log ok\n[+]etcd ok\nlivez check passed\n"),
        ("/readyz", {"verbose": "", "exclude": "etcd"}, READY),
        ("/readyz/informer-sync", {"verbose": ""}, "ok"),
    ],
)
async def test_health_checks_pass(path: str, query: dict[str, str], text: str) -> None:
    response = await LocalApi().send("GET", path, **query)
    assert (response.status, response.body.decode(), response.headers) == (200, text, PLAIN)


async def test_root_lists_all_paths() -> None:
    api = LocalApi()
    for path in ("/", "/index.html"):
        paths = (await api.call("GET", path))["paths"]
        assert paths == sorted(paths)
        assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/readyz/etcd", "/version"}.issubset(paths)
    for path in paths:
        assert (await api.send("GET", path)).status == 200, path


@pytest.mark.parametrize(
    "path",
    ["/nonsense", "/readyz/", "/livez/informer-sync", "/apis/example.dev", "/apis/example.dev/v1/things", "/apis/x/v"],
)
async def test_unknown_path_is_a_404_in_plain_text(path: str) -> None:
    response = await LocalApi().send("GET", path)
    assert (response.status, response.body, response.headers) == (404, b"404 page not found\n", PLAIN)


@pytest.mark.parametrize("path", ["/api/v2", "/api/v1/things", "/apis/apps/v9", "/apis/apps/v1/things"])
async def test_unknown_path_in_a_kubernetes_group_is_a_status(path: str) -> None:
    unknown = (404, "NotFound", "the server could not find the requested resource")
    assert await LocalApi().call_error("GET", path) == unknown
