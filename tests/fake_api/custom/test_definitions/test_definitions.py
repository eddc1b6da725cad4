"""Kinds that users define."""

from __future__ import annotations

from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined_resources, establish
from kframework.objects import kind_of
from kframework.objects.codec import convert
from tests.fake_api.local_api import MERGE, TABLE, Json, LocalApi
from tests.support.declared_kinds import Gang, gang

ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(**changes: object) -> Json:
    names = {"kind": "Widget", "plural": "widgets", "singular": "widget", "shortNames": ["wd"]}
    versions = [
        {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": ANYTHING},
        {"name": "v1beta1", "served": True, "storage": False, "schema": ANYTHING},
        {"name": "v1alpha1", "served": False, "storage": False, "schema": ANYTHING},
    ]
    spec = {"group": "example.dev", "names": names, "scope": "Namespaced", "versions": versions} | changes
    metadata = {"name": "widgets.example.dev"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def read(document: Json) -> CustomResourceDefinition:
    return convert(document, kind_of(CustomResourceDefinition))


def test_definition_serves_its_versions() -> None:
    newer, older = defined_resources(read(definition()))
    assert (newer.kind.api_version, newer.kind.name, newer.kind.plural) == ("example.dev/v1", "Widget", "widgets")
    assert (newer.singular, newer.short_names, newer.subresources) == ("widget", ("wd",), frozenset({"status"}))
    assert newer.storage_kind is newer.kind is older.storage_kind
    assert not older.subresources
    assert older.to_view({"apiVersion": "example.dev/v1", "a": 1}) == {"apiVersion": "example.dev/v1beta1", "a": 1}
    assert older.from_view({"apiVersion": "example.dev/v1beta1"}) == {"apiVersion": "example.dev/v1"}
    (again, _) = defined_resources(read(definition()))
    assert again.storage_kind is newer.storage_kind


def test_definition_without_versions_serves_nothing() -> None:
    assert list(defined_resources(read(definition(versions=[])))) == []


def test_status_has_the_established_condition() -> None:
    status = establish(definition(), "now")["status"]
    assert isinstance(status, dict)
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    assert status["storedVersions"] == ["v1"]


async def test_posted_definition_is_served() -> None:
    api = LocalApi()
    widgets = "/apis/example.dev/v1/namespaces/default/widgets"
    assert (await api.send("GET", widgets)).status == 404
    created = await api.call("POST", DEFINITIONS, definition())
    assert created["status"]["conditions"][1]["type"] == "Established"
    widget = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    await api.call("POST", widgets, widget | {"status": {"ready": False}})
    patched = await api.call("PATCH", f"{widgets}/w/status", {"status": {"ready": True}}, content_type=MERGE)
    assert (patched["spec"], patched["status"]) == ({"size": 1}, {"ready": True})
    (older,) = (await api.call("GET", "/apis/example.dev/v1beta1/widgets"))["items"]
    assert older == patched | {"apiVersion": "example.dev/v1beta1"}
    assert (await api.send("GET", "/apis/example.dev/v1alpha1/widgets")).status == 404


async def test_definition_has_printer_columns() -> None:
    api = LocalApi()
    columns = [
        {"name": "PHASE", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
    ]
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": ANYTHING, "additionalPrinterColumns": columns},
        {"name": "v1beta1", "served": True, "storage": False, "schema": ANYTHING},
    ]
    names = {"kind": "Widget", "plural": "widgets", "categories": ["all", "toys"]}
    await api.call("POST", DEFINITIONS, definition(versions=versions, names=names))
    (resource,) = (await api.call("GET", "/apis/example.dev/v1"))["resources"]
    assert resource["categories"] == ["all", "toys"]
    widgets = "/apis/example.dev/v1/namespaces/default/widgets"
    await api.call("POST", widgets, {"kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}})
    table = await api.call("GET", widgets, accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "PHASE", "Size"]
    assert [row["cells"] for row in table["rows"]] == [["w", None, 1]]
    table = await api.call("GET", "/apis/example.dev/v1beta1/widgets", accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Age"]


async def test_custom_resources_are_deleted_with_their_definition() -> None:
    api = LocalApi()
    await api.call("POST", DEFINITIONS, definition(scope="Cluster"))
    widgets = "/apis/example.dev/v1/widgets"
    await api.call("POST", widgets, {"kind": "Widget", "metadata": {"name": "w"}})
    await api.call("DELETE", f"{DEFINITIONS}/widgets.example.dev")
    assert (await api.send("GET", widgets)).status == 404
    await api.call("POST", DEFINITIONS, definition(scope="Cluster"))
    assert (await api.call("GET", widgets))["items"] == []


async def test_changed_definition_takes_effect() -> None:
    api = LocalApi()
    await api.call("POST", DEFINITIONS, definition())
    only = {"spec": {"versions": [{"name": "v1", "served": True, "storage": True, "schema": ANYTHING}]}}
    patched = await api.call("PATCH", f"{DEFINITIONS}/widgets.example.dev", only, content_type=MERGE)
    assert patched["status"]["conditions"][1]["type"] == "Established"
    assert (await api.call("GET", "/apis/example.dev/v1/widgets"))["items"] == []
    assert (await api.send("GET", "/apis/example.dev/v1beta1/widgets")).status == 404


async def test_definition_of_a_declared_kind_serves_it() -> None:
    api = LocalApi(gang())
    names = {"kind": "Gang", "plural": "gangs", "singular": "gang", "shortNames": ["gg"]}
    version = {"name": "v1", "served": True, "storage": True, "schema": ANYTHING, "subresources": {"status": {}}}
    versions = [version]
    posted = definition(group="example.com", names=names, versions=versions) | {
        "metadata": {"name": "gangs.example.com"}
    }
    await api.call("POST", DEFINITIONS, posted)
    resources = {each["name"]: each for each in (await api.call("GET", "/apis/example.com/v1"))["resources"]}
    assert resources["gangs"]["shortNames"] == ["gg"]
    assert "gangs/status" in resources
    table = await api.call("GET", "/apis/example.com/v1/gangs", accept=TABLE)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Age"]
    path = "/apis/example.com/v1/namespaces/default/gangs/crew"
    await api.call("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, content_type=MERGE)
    assert api.cluster.read(Gang, "crew").status.phase == "Running"
    patched = await api.call("PATCH", path, {"spec": {"colour": "red"}}, content_type=MERGE)
    assert patched["spec"]["colour"] == "red"  # the definition has it, the struct does not


SIZE = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 2}}}
OBJECTS = "/apis/example.dev/v1/namespaces/default/widgets"


async def with_schema() -> LocalApi:
    api = LocalApi()
    schema = {"type": "object", "properties": {"spec": SIZE, "status": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    await api.call("POST", DEFINITIONS, definition(versions=[version]))
    return api


async def test_objects_are_pruned_defaulted_and_validated() -> None:
    api = await with_schema()
    made = await api.call("POST", OBJECTS, {"metadata": {"name": "a"}, "spec": {"colour": "red"}})
    assert made["spec"] == {"size": 2}
    strict = {"metadata": {"name": "b"}, "spec": {"colour": "red"}}
    _, _, message = await api.call_error("POST", OBJECTS, strict, fieldValidation="Strict")
    assert message.endswith('strict decoding error: unknown field "spec.colour"')
    for size, why in (
        ("big", 'Invalid value: "string": spec.size in body must be of type integer: "string"'),
        (0, "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
    ):
        body = {"metadata": {"name": "b"}, "spec": {"size": size}}
        result = 422, "Invalid", f'Widget.example.dev "b" is invalid: spec.size: {why}'
        assert await api.call_error("POST", OBJECTS, body) == result
    patch = {"spec": {"size": "big"}}
    assert (await api.call_error("PATCH", f"{OBJECTS}/a", patch, content_type=MERGE))[0] == 422


async def test_invalid_definition_is_rejected() -> None:
    wrong = definition(scope="Global", group="example.org")
    status, reason, message = await LocalApi().call_error("POST", DEFINITIONS, wrong)
    assert (status, reason) == (422, "Invalid")
    assert message.startswith(
        'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.dev" is invalid: [metadata.name: Invalid value:'
    )


async def test_conflicting_name_is_not_served() -> None:
    api = await with_schema()
    names = {"kind": "Gadget", "plural": "gadgets", "shortNames": ["wd", "gd"]}
    other = definition(names=names) | {"metadata": {"name": "gadgets.example.dev"}}
    made = await api.call("POST", DEFINITIONS, other)
    accepted_, established = made["status"]["conditions"]
    assert (accepted_["status"], accepted_["reason"], accepted_["message"]) == (
        *("False", "ShortNamesConflict"),
        '"wd" is already in use',
    )
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert (await api.send("GET", "/apis/example.dev/v1/gadgets")).status == 404
