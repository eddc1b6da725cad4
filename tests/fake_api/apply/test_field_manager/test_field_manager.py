"""Applies and other writes, as an API server answers them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kframework.client.transport import Request
from kframework.fake_api.apply.field_manager import conflict_error, last_applied, with_last_applied
from kframework.fake_api.apply.managed_fields import APPLY, UPDATE, Owner, field_element
from kframework.objects import Node, ObjectMeta
from tests.fake_api.custom.test_definitions.test_definitions import DEFINITIONS, definition
from tests.fake_api.local_api import MERGE, NODES, PODS, Json, LocalApi, pod, read, request

START = "2026-01-01T00:00:00Z"
APPLY_PATCH = "application/apply-patch+yaml"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WEB = f"{DEPLOYMENTS}/web"
MAPS = "/api/v1/namespaces/default/configmaps"


def deployment(replicas: int | None = None, image: str = "nginx", **metadata: object) -> Json:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"} | metadata, "spec": spec}


def config_map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


async def apply(api: LocalApi, path: str, body: object, manager: str = "me", **query: Any) -> Json:
    return await api.call("PATCH", path, body, content_type=APPLY_PATCH, fieldManager=manager, **query)


async def refused(api: LocalApi, path: str, body: object, manager: str = "me", **query: Any) -> tuple[int, str, str]:
    query = {"fieldManager": manager} | query
    return await api.call_error("PATCH", path, body, content_type=APPLY_PATCH, **query)


def managers(document: Json) -> dict[str, Json]:
    """Return the fields of each manager, as `manager operation[ subresource]`."""
    return {
        " ".join(filter(None, (each["manager"], each["operation"], each.get("subresource")))): each["fieldsV1"]
        for each in document["metadata"].get("managedFields", [])
    }


UNTYPED = "failed to create typed patch object"
A: Json = {"f:data": {"f:a": {}}}
B: Json = {"f:data": {"f:b": {}}}


async def test_missing_object_is_created_by_apply() -> None:
    api = LocalApi()
    response = await api.server.answer(
        request("PATCH", f"{MAPS}/m", config_map(a="1"), content_type=APPLY_PATCH, fieldManager="me")
    )
    assert response.status == 201
    assert read(response.body)["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": START,
            "fieldsType": "FieldsV1",
            "fieldsV1": A,
        }
    ]
    assert (await api.call("GET", f"{MAPS}/m")) == read(response.body)


async def test_apply_changes_fields_and_removes_those_no_longer_applied() -> None:
    api = LocalApi()
    await apply(api, f"{MAPS}/m", config_map(a="1", b="1"))
    before = await apply(api, f"{MAPS}/m", config_map(b="1", c="1"), "you")
    after = await apply(api, f"{MAPS}/m", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n")
    assert after["data"] == {"b": "1", "c": "1"}
    assert managers(after) == {"you Apply": {"f:data": {"f:b": {}, "f:c": {}}}}
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    again = await apply(api, f"{MAPS}/m", config_map(b="1", c="1"), "you")
    assert again == after


async def test_conflicting_apply_is_rejected_unless_forced() -> None:
    api = LocalApi()
    await api.call("POST", DEPLOYMENTS, deployment(2), fieldManager="kubectl-client-side-apply")
    status, reason, message = await refused(api, WEB, deployment(3))
    assert (status, reason) == (409, "Conflict")
    assert message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )
    forced = await apply(api, WEB, deployment(3), force="true")
    assert forced["spec"]["replicas"] == 3
    assert forced["metadata"]["generation"] == 2
    owned = managers(forced)
    assert "f:replicas" in owned["me Apply"]["f:spec"]
    assert "f:replicas" not in owned["kubectl-client-side-apply Update"]["f:spec"]
    assert "f:strategy" in owned["kubectl-client-side-apply Update"]["f:spec"]


async def test_dry_run_changes_nothing() -> None:
    api = LocalApi()
    tried = await apply(api, f"{MAPS}/m", config_map(a="1"), dryRun="All")
    assert managers(tried) == {"me Apply": A}
    assert (await api.call_error("GET", f"{MAPS}/m"))[0] == 404
    await apply(api, f"{MAPS}/m", config_map(a="1"))
    assert (await apply(api, f"{MAPS}/m", config_map(b="1"), dryRun="All"))["data"] == {"b": "1"}
    assert (await api.call("GET", f"{MAPS}/m"))["data"] == {"a": "1"}


async def test_objects_from_files_have_no_managed_fields() -> None:
    api = LocalApi(Node(metadata=ObjectMeta(name="n1", labels={"a": "b"})))
    node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "c"}}}
    assert "before-first-apply" in (await refused(api, f"{NODES}/n1", node))[2]
    applied = await apply(api, f"{NODES}/n1", node, force="true")
    assert managers(applied)["me Apply"] == {"f:metadata": {"f:labels": {"f:a": {}}}}


async def test_custom_resources_merge_by_their_schema() -> None:
    api = LocalApi()
    elements = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    item = {"type": "object", "required": ["name"], "properties": {name: {"type": "string"} for name in ("name", "x")}}
    spec = {"type": "object", "properties": {"parts": {**elements, "items": item}}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": schema}
    await api.call("POST", DEFINITIONS, definition(versions=[version]))
    path = "/apis/example.dev/v1/namespaces/default/widgets/w"

    def widget(*names: str, **more: object) -> Json:
        head = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
        return {**head, "spec": {"parts": [{"name": name, "x": "1"} for name in names]}, **more}

    await apply(api, path, widget("a", "b"))
    both = await apply(api, path, widget("c"), "you")
    assert [each["name"] for each in both["spec"]["parts"]] == ["a", "b", "c"]
    left = await apply(api, path, widget("b"))
    assert [each["name"] for each in left["spec"]["parts"]] == ["b", "c"]
    message = (await refused(api, path, widget(x=1)))[2]
    assert message.endswith("(default/w; example.dev/v1, Kind=Widget): .x: field not declared in schema")
    result = await apply(api, f"{path}/status", widget(status={"phase": "Ready"}), "controller")
    assert result["status"] == {"phase": "Ready"}
    assert managers(result)["controller Apply status"] == {"f:status": {"f:phase": {}}}


async def test_status_and_scale_have_their_own_owners() -> None:
    api = LocalApi()
    await apply(api, WEB, deployment(2))
    head: Json = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"x": "y"}}}
    conditions = [{"type": "Available", "status": "True"}]
    result = await apply(api, f"{WEB}/status", {**head, "spec": {"replicas": 9}, "status": {"conditions": conditions}})
    assert (result["spec"]["replicas"], result["status"]["conditions"]) == (2, conditions)
    assert managers(result)["me Apply status"] == {
        "f:metadata": {"f:labels": {"f:x": {}}},
        "f:status": {"f:conditions": {'k:{"type":"Available"}': {".": {}, "f:status": {}, "f:type": {}}}},
    }
    scale: Json = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3},
    }
    assert (await refused(api, f"{WEB}/scale", scale, "you"))[0] == 409
    assert (await apply(api, f"{WEB}/scale", scale, "you", force="true"))["spec"] == {"replicas": 3}
    await api.call("PATCH", f"{WEB}/scale", {"spec": {"replicas": 4}}, content_type=MERGE, fieldManager="kubectl")
    owned = managers(await api.call("GET", WEB))
    assert "f:replicas" not in owned["me Apply"]["f:spec"]
    assert owned["kubectl Update scale"] == {"f:spec": {"f:replicas": {}}}
    assert "you Apply scale" not in owned


async def test_kubectl_takes_over_its_client_side_apply() -> None:
    api = LocalApi()
    name = "kubectl.kubernetes.io/last-applied-configuration"
    annotated = deployment(2, annotations={name: json.dumps(deployment(2))})
    await api.call("POST", DEPLOYMENTS, annotated, fieldManager="kubectl-client-side-apply")
    applied = await apply(api, WEB, deployment(3), "kubectl")
    assert json.loads(applied["metadata"]["annotations"][name]) == deployment(3)
    await api.call("PATCH", WEB, {"spec": {"replicas": 5}}, content_type=MERGE, fieldManager="other")
    assert 'conflict with "other" using apps/v1' in (await refused(api, WEB, deployment(4), "kubectl"))[2]


@pytest.mark.parametrize(
    ("body", "query", "answer"),
    [
        (
            config_map(),
            {"fieldManager": ""},
            (
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
            ),
        ),
        (
            config_map() | {"apiVersion": "v2"},
            {},
            (
                400,
                "BadRequest",
                "Incorrect version specified in apply patch. Specified patch version: v2, expected: v1",
            ),
        ),
        (
            config_map() | {"metadata": {"name": "m", "managedFields": []}},
            {},
            (400, "BadRequest", "metadata.managedFields must be nil"),
        ),
        (
            config_map() | {"metadata": {"name": "other"}},
            {},
            (400, "BadRequest", "the name of the object (other) does not match the name on the URL (m)"),
        ),
        (
            config_map() | {"datum": {}},
            {},
            (
                500,
                "",
                f"{UNTYPED} (default/m; v1, Kind=ConfigMap): .datum: field not declared in schema",
            ),
        ),
    ],
)
async def test_invalid_configuration_is_rejected(body: Json, query: Json, answer: tuple[int, str, str]) -> None:
    assert await refused(LocalApi(), f"{MAPS}/m", body, **query) == answer


async def test_status_of_a_missing_object_is_not_applied() -> None:
    assert (await refused(LocalApi(), f"{WEB}/status", deployment()))[:2] == (404, "NotFound")


async def test_duplicate_fields_and_wrong_types_are_rejected() -> None:
    api = LocalApi()
    twice = b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1", "a": "2"}}'
    assert (await refused(api, f"{MAPS}/m", twice, fieldValidation="Strict"))[0] == 422
    assert (await refused(api, f"{MAPS}/m", config_map() | {"data": {"a": 1}}))[0] == 422


async def test_writer_owns_the_fields_it_sets() -> None:
    api = LocalApi()
    await api.call("POST", MAPS, config_map(a="1"), fieldManager="creator")
    changed = await api.call("PATCH", f"{MAPS}/m", {"data": {"b": "1"}}, content_type=MERGE, fieldManager="patcher")
    assert managers(changed) == {"creator Update": {"f:data": {".": {}, **A["f:data"]}}, "patcher Update": B}
    replaced = await api.call("PUT", f"{MAPS}/m", config_map(a="2"), fieldManager="patcher")
    assert managers(replaced) == {"creator Update": {"f:data": {}}, "patcher Update": A}


@pytest.mark.parametrize(
    ("agent", "manager"), [("kubectl/v1.36.2 (linux/amd64)", "kubectl"), ("", "unknown"), ("é\x00" * 100, "é" * 64)]
)
async def test_manager_is_the_program_by_default(agent: str, manager: str) -> None:
    api = LocalApi()
    sent = request("POST", MAPS, config_map(a="1"))
    answer = await api.server.answer(Request(method=sent.method, path=sent.path, body=sent.body, user_agent=agent))
    assert list(managers(read(answer.body))) == [f"{manager} Update"]


async def test_pods_get_managed_fields_from_the_first_named_manager() -> None:
    api = LocalApi()
    assert managers(await api.call("POST", PODS, pod("a"))) == {}
    labelled = await api.call("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    assert managers(labelled) == {}
    assert list(managers(await api.call("POST", PODS, pod("b"), fieldManager="me"))) == ["me Update"]
    named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}}}
    owned = managers(await apply(api, f"{PODS}/a", named))
    assert owned["me Apply"] == {"f:metadata": {"f:labels": {"f:x": {}}}}
    assert "f:containers" in owned["before-first-apply Update"]["f:spec"]


async def test_managed_fields_can_be_written_and_reset() -> None:
    api = LocalApi()
    stored = await apply(api, f"{MAPS}/m", config_map(a="1"))
    kept = await api.call("PUT", f"{MAPS}/m", config_map(a="1"), fieldManager="you")
    assert managers(kept) == {"me Apply": A}
    (entry,) = stored["metadata"]["managedFields"]
    renamed = {"metadata": {"managedFields": [entry | {"manager": "them"}]}}
    assert managers(await api.call("PATCH", f"{MAPS}/m", renamed, content_type=MERGE)) == {"them Apply": A}
    unreadable = {"metadata": {"managedFields": [entry | {"operation": "Guess"}]}}
    assert managers(await api.call("PATCH", f"{MAPS}/m", unreadable, content_type=MERGE)) == {"them Apply": A}
    resets: list[list[Json]] = [[{}], []]
    for reset in resets:
        await apply(api, f"{MAPS}/m", config_map(a="1"))
        deleted = await api.call("PATCH", f"{MAPS}/m", {"metadata": {"managedFields": reset}}, content_type=MERGE)
        assert managers(deleted) == {}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        (
            {"fieldManager": "a\nb"},
            r'fieldManager: Invalid value: "a\nb": invalid character U+000A (at position 1)',
        ),
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
async def test_invalid_manager_name_is_rejected(query: Json, why: str) -> None:
    api = LocalApi()
    await api.call("POST", MAPS, config_map())
    answer = await api.call_error("PATCH", f"{MAPS}/m", {}, content_type=MERGE, **query)
    assert answer == (422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {why}')


REPLICAS, IMAGE = (field_element("spec"), field_element("replicas")), (field_element("spec"), field_element("image"))
KUBECTL = Owner("kubectl-client-side-apply", UPDATE, "apps/v1")


def test_one_conflict_is_reported() -> None:
    error = conflict_error({KUBECTL: [REPLICAS], Owner("me", APPLY, ""): []})
    assert (error.status, error.reason) == (409, "Conflict")
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    )
    assert error.causes == (
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-client-side-apply" using apps/v1',
            "field": ".spec.replicas",
        },
    )


def test_several_conflicts_are_reported() -> None:
    error = conflict_error({KUBECTL: [IMAGE, REPLICAS], Owner("me", APPLY, ""): [IMAGE]})
    assert error.message == "\n".join(
        [
            'Apply failed with 3 conflicts: conflicts with "kubectl-client-side-apply" using apps/v1:',
            "- .spec.image",
            "- .spec.replicas",
            'conflicts with "me":',
            "- .spec.image",
        ]
    )
    assert len(error.causes) == 3


NAME = "kubectl.kubernetes.io/last-applied-configuration"


def annotated(text: str, **others: str) -> Json:
    return {"metadata": {"annotations": {NAME: text, **others}}}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({}, None),
        (annotated(""), None),
        (annotated("{"), None),
        (annotated("[]"), None),
        (annotated('{"a":1}'), {"a": 1}),
    ],
)
def test_last_applied_configuration_is_decoded(data: Json, found: Json | None) -> None:
    assert last_applied(data) == found


def test_last_applied_annotation_excludes_itself() -> None:
    config: Json = {"spec": {}, "metadata": {"name": "x", "annotations": {NAME: "old"}}}
    brought_up = with_last_applied(annotated('{"a":1}', other="kept"), config)
    assert brought_up == annotated('{"metadata":{"name":"x"},"spec":{}}\n', other="kept")
    assert with_last_applied({"metadata": {}}, config) == {"metadata": {}}
