"""OpenAPI documents describe what is served, are made when asked for, and are not sent twice."""

from __future__ import annotations

import msgspec

from kframework.fake_api.schema.openapi import OpenApi
from kframework.objects.openapi.definitions import definition_of
from tests.fake_api.local_api import Json, LocalApi, read, request

SPEC = {"type": "object", "description": "What it is."}


def kinds(document: Json) -> dict[tuple[str, str, str], Json]:
    """Find the schemas of kinds by group, version and kind."""
    return {
        (names["group"], names["version"], names["kind"]): schema
        for schema in document["components"]["schemas"].values()
        for names in schema.get("x-kubernetes-group-version-kind", ())
    }


async def test_every_path_is_described_and_every_reference_resolves() -> None:
    api = LocalApi()
    index = await api.call("GET", "/openapi/v3")
    assert {"api/v1", "apis/apps/v1", "apis/storage.k8s.io/v1"} <= index["paths"].keys()
    for place in index["paths"]:
        document = await api.call("GET", f"/openapi/v3/{place}")
        schemas = document["components"]["schemas"]
        assert document["openapi"] == "3.0.0"
        assert set(_references(document)) <= {f"#/components/schemas/{name}" for name in schemas}
        described = kinds(document)
        for path in document["paths"].values():
            names = path["patch"]["x-kubernetes-group-version-kind"]
            if definition_of(place.removeprefix("apis/").removeprefix("api/"), names["kind"]):
                assert tuple(names.values()) in described, names


def _references(value: object) -> list[str]:
    if isinstance(value, dict):
        if isinstance(actual := value.get("$ref"), str):  # a schema of schemas has a property of that name
            return [actual]
        return [each for item in value.values() for each in _references(item)]
    return [each for item in value for each in _references(item)] if isinstance(value, list) else []


async def test_document_describes_its_kinds() -> None:
    document = await LocalApi().call("GET", "/openapi/v3/api/v1")
    pod = kinds(document)["", "v1", "Pod"]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"]["type"] == "array"
    assert spec["properties"]["containers"]["description"].startswith("List of containers belonging to the pod.")
    assert kinds(document)["", "v1", "PodList"]["properties"]["items"]["type"] == "array"
    claims = document["components"]["schemas"]["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    quantity = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert claims["additionalProperties"] == {"allOf": [{"$ref": f"#/components/schemas/{quantity}"}]}
    assert document["components"]["schemas"][quantity] == {"oneOf": [{"type": "string"}, {"type": "number"}]}
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert {"dryRun", "fieldValidation", "force"} <= {parameter["name"] for parameter in patch["parameters"]}


async def test_cached_document_is_not_sent_again() -> None:
    api = LocalApi()
    url = (await api.call("GET", "/openapi/v3"))["paths"]["api/v1"]["serverRelativeURL"]
    path, _, tag = url.partition("?hash=")
    whole = await api.send("GET", path, hash=tag)
    assert (whole.status, whole.headers["etag"], whole.headers["cache-control"]) == (
        *(200, f'"{tag}"'),
        "public, immutable",
    )
    moved = await api.send("GET", path, hash="OLD")
    assert (moved.status, moved.headers["location"]) == (301, url)
    for sent in (path, "/openapi/v3", "/openapi/v2"):
        first = await api.send("GET", sent)
        known = msgspec.structs.replace(request("GET", sent), if_none_match=first.headers["etag"])
        again = await api.server.answer(known)
        assert (again.status, again.body) == (304, b"")


def test_index_builds_no_document() -> None:
    openapi = OpenApi("v1.37.0")
    assert read(openapi.answer_index(request("GET", "/openapi/v3"), ()).body) == {"paths": {}}
    assert openapi._cache == {}


async def test_custom_kind_is_described_until_it_changes() -> None:
    api = LocalApi()
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
                }
            ],
        },
    }
    await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    index = await api.call("GET", "/openapi/v3")
    document = await api.call("GET", "/openapi/v3/apis/example.com/v1")
    widget = kinds(document)["example.com", "v1", "Widget"]
    assert widget["properties"]["spec"] == SPEC
    assert widget["properties"]["kind"] == {"type": "string"}
    assert "com.example.v1.Widget" in document["components"]["schemas"]
    patch = {"metadata": {"labels": {"a": "b"}}}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    await api.call("PATCH", path, patch, content_type="application/merge-patch+json")
    assert (await api.call("GET", "/openapi/v3")) == index


async def test_version_2_describes_all_kinds() -> None:
    api = LocalApi()
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    response = await api.send("GET", "/openapi/v2", accept=accept)
    assert (response.status, response.body) == (200, b"")
    document = await api.call("GET", "/openapi/v2")
    assert document["swagger"] == "2.0"
    pod = document["definitions"]["io.k8s.api.core.v1.Pod"]
    assert pod["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.core.v1.PodSpec"
    assert document["definitions"]["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {"type": "string"}
    assert set(_references(document)) <= {f"#/definitions/{name}" for name in document["definitions"]}


async def test_unknown_version_has_no_document() -> None:
    assert (await LocalApi().send("GET", "/openapi/v3/apis/nonsense/v1")).status == 404
