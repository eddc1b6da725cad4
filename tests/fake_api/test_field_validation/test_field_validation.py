"""Unknown and duplicate fields are refused, warned of or ignored, as kube-apiserver does."""

from __future__ import annotations

import pytest

from kframework.fake_api.field_validation import _format_warnings
from kframework.objects import Namespace, ObjectMeta
from tests.fake_api.local_api import MERGE, NODES, PODS, STRATEGIC, Json, LocalApi, node, pod

JSON_PATCH = "application/json-patch+json"
MISSPELT = pod() | {"spec": pod()["spec"] | {"tolerrations": []}, "stauts": {}}
UNKNOWN = ['unknown field "spec.tolerrations"', 'unknown field "stauts"']
TWICE = (
    b'{"kind": "Pod", "kind": "Pod", "metadata": {"name": "web"},'
    b' "spec": {"containers": [{"name": "c", "name": "c", "image": "x"}]}}'
)
DUPLICATE = ['duplicate field "kind"', 'duplicate field "spec.containers[0].name"']


def header(texts: list[str]) -> str:
    return ", ".join('299 - "{}"'.format(text.replace('"', '\\"')) for text in texts)


@pytest.mark.parametrize(("body", "problems"), [(MISSPELT, UNKNOWN), (TWICE, DUPLICATE)])
async def test_fields_of_a_created_object_are_validated(body: Json | bytes, problems: list[str]) -> None:
    api = LocalApi()
    assert await api.call_error("POST", PODS, body, fieldValidation="Strict") == (
        400,
        "BadRequest",
        f'Pod in version "v1" cannot be handled as a Pod: strict decoding error: {", ".join(problems)}',
    )
    for query, warned in (
        ({"fieldValidation": "Ignore"}, None),
        ({"fieldValidation": "Warn"}, problems),
        ({}, problems),
    ):
        response = await api.send("POST", PODS, body, dryRun="All", **query)
        assert response.status == 201
        assert response.headers.get("warning") == (header(warned) if warned else None)


async def test_error_has_the_version_without_its_group() -> None:
    api = LocalApi(Namespace(metadata=ObjectMeta(name="default")))
    path = "/apis/apps/v1/namespaces/default/replicasets"
    _, _, message = await api.call_error("POST", path, {"spce": 1}, fieldValidation="Strict")
    assert message.startswith('ReplicaSet in version "v1" cannot be handled as a ReplicaSet: strict decoding error: ')


async def test_unknown_fields_are_not_stored() -> None:
    api = LocalApi()
    await api.call("POST", PODS, MISSPELT)
    stored = await api.call("GET", f"{PODS}/web")
    assert "stauts" not in stored
    assert "tolerrations" not in stored["spec"]
    # so that a later patch of something else is not refused for it
    patch = {"metadata": {"labels": {"a": "b"}}}
    await api.call("PATCH", f"{PODS}/web", patch, content_type=MERGE, fieldValidation="Strict")


async def test_fields_of_an_updated_object_are_validated() -> None:
    api = LocalApi()
    await api.call("POST", NODES, node())
    misspelt = node(spec={"tiants": []})
    status, _, message = await api.call_error("PUT", f"{NODES}/n1", misspelt, fieldValidation="Strict")
    assert (status, message.rpartition(": ")[2]) == (400, 'unknown field "spec.tiants"')
    response = await api.send("PUT", f"{NODES}/n1", misspelt)
    assert (response.status, response.headers["warning"]) == (200, header(['unknown field "spec.tiants"']))


@pytest.mark.parametrize(
    ("content_type", "patch", "problems"),
    [
        (MERGE, b'{"spec": {"foo": 1}}', ['unknown field "spec.foo"']),
        (STRATEGIC, b'{"spec": {"foo": 1, "foo": 2}}', ['duplicate field "spec.foo"', 'unknown field "spec.foo"']),
        (JSON_PATCH, b'[{"op": "add", "path": "/spec/foo", "value": 1}]', ['unknown field "spec.foo"']),
        (
            JSON_PATCH,
            b'[{"op": "add", "op": "add", "path": "/metadata/labels", "value": {}}]',
            ['json patch duplicate field "[0].op"'],
        ),
    ],
)
async def test_fields_of_a_patched_object_are_validated(content_type: str, patch: bytes, problems: list[str]) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    query = {"content_type": content_type, "dryRun": "All"}
    status, reason, message = await api.call_error("PATCH", f"{PODS}/web", patch, fieldValidation="Strict", **query)
    assert (status, reason) == (422, "Invalid")
    assert message.startswith(' "" is invalid: patch: Invalid value: "')
    assert message.endswith(f": strict decoding error: {', '.join(problems)}")
    response = await api.send("PATCH", f"{PODS}/web", patch, **query)
    assert (response.status, response.headers["warning"]) == (200, header(problems))
    response = await api.send("PATCH", f"{PODS}/web", patch, fieldValidation="Ignore", **query)
    assert (response.status, "warning" in response.headers) == (200, False)


@pytest.mark.parametrize(("method", "kind"), [("POST", "Create"), ("PUT", "Update"), ("PATCH", "Patch")])
async def test_unknown_directive_is_rejected(method: str, kind: str) -> None:
    api = LocalApi()
    await api.call("POST", PODS, pod())
    path = PODS if method == "POST" else f"{PODS}/web"
    content_type = MERGE if method == "PATCH" else "application/json"
    assert await api.call_error(method, path, pod(), content_type=content_type, fieldValidation="strict") == (
        422,
        "Invalid",
        (
            f'{kind}Options.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "strict":'
            ' supported values: "", "Ignore", "Strict", "Warn"'
        ),
    )


async def test_field_name_with_line_breaks_is_one_header_line() -> None:
    response = await LocalApi().send("POST", PODS, pod() | {'a\r\nx: "b"': 1})
    assert response.headers["warning"] == r'299 - "unknown field \"a\\r\\nx: \\\"b\\\"\""'


async def test_warnings_have_a_length_limit() -> None:
    many = pod() | {f"{number:0300}": 1 for number in range(200)}
    _, _, message = await LocalApi().call_error("POST", PODS, many, fieldValidation="Strict")
    assert message.count("unknown field") == 100
    result = list(_format_warnings([f"{number:0300}" for number in range(100)]))
    assert (len(result), {len(text) for text in result}) == (16, {256 + len('299 - ""')})


async def test_custom_resources_are_validated_by_their_schema() -> None:
    api = LocalApi()
    names = {"kind": "Widget", "plural": "widgets"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "names": names, "scope": "Cluster", "versions": versions},
    }
    await api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    widget = {"metadata": {"name": "w"}, "spec": {"anything": 1}}
    path = "/apis/example.com/v1/widgets"
    await api.call("POST", path, widget, fieldValidation="Strict")
    _, _, message = await api.call_error("POST", path, widget | {"metadata": {"nmae": "w"}}, fieldValidation="Strict")
    assert message.endswith('strict decoding error: unknown field "metadata.nmae"')
