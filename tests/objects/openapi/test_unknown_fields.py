"""Fields that a kind does not have are found, each with its path and the name that was probably meant."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import ApiObject, ApiStruct, LabelSelector, ObjectMeta, PodSpec, kind
from kframework.objects.openapi.unknown_fields import remove_fields, unknown_fields
from kframework.objects.problem import FieldPath
from kframework.testing import make_node, make_pod
from tests.support import declared_kinds as declared_kinds


def spelled(data: dict[str, Any], api_version: str = "v1", kind: str = "Pod") -> list[str]:
    return [str(field) for field in unknown_fields(data, api_version, kind)]


def test_values_of_any_type_may_have_any_field() -> None:
    assert spelled({"data": {"spce": 1}}, "apps/v1", "ControllerRevision") == []


def test_objects_as_they_should_be_have_no_unknown_field() -> None:
    for made, name in ((make_pod("a"), "Pod"), (make_node("n"), "Node")):
        assert spelled(msgspec.to_builtins(made), "v1", name) == []


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"spce": {}}, [(("spce",), "spec")]),
        ({"spec": {"tolerrations": []}}, [(("spec", "tolerrations"), "tolerations")]),
        ({"spec": {"containers": [{}, {"xyzzy": 1}]}}, [(("spec", "containers", 1, "xyzzy"), None)]),
        ({"metadata": {"labels": {"spce": "x"}, "annotations": {"a": "b"}}}, []),
        ({"spec": {"nodeSelector": {"spce": "x"}}}, []),
        ({"spec": {"containers": [{"resources": {"limits": {"spce": 1}}}]}}, []),
        ({"spec": {"affinity": {"spce": 1}}}, [(("spec", "affinity", "spce"), None)]),
        ({"spec": None, "metadata": "x"}, []),
        ({"spec": {"containers": "x", "volumes": [1]}}, []),
        ({"a": 1, "spec": {"b": 1}, "c": 1}, [(path, None) for path in [("a",), ("spec", "b"), ("c",)]]),
    ],
)  # fmt: skip
def test_unknown_fields_are_found_with_the_nearest_name(
    data: dict[str, Any], found: list[tuple[FieldPath, str | None]]
) -> None:
    assert [(field.path, field.nearest) for field in unknown_fields(data, "v1", "Pod")] == found


def test_maps_of_models_are_looked_into() -> None:
    data = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a.b": {"tpye": "x"}}}}}]}}
    found = unknown_fields(data, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert [field.path[-2:] for field in found] == [("a.b", "tpye")]


@pytest.mark.parametrize("api_version", ["others.com/v1", "scheduling.x-k8s.io/v1", "snapshot.storage.k8s.io/v1"])
def test_of_other_kinds_the_metadata_is_checked(api_version: str) -> None:
    data = {"metadata": {"lables": {}}, "spec": {"anything": 1}}
    assert spelled(data, api_version, "Gang") == ["metadata.lables: unknown field"]
    assert spelled({"spec": {}}, api_version, "Gang") == []


class RackTemplate(ApiStruct, frozen=True, kw_only=True):
    """Types of Kubernetes whose structs read only some fields."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class RackSpec(ApiStruct, frozen=True, kw_only=True):
    """A field of each shape."""

    rack_size: int = 0
    template: RackTemplate | None = None
    templates: tuple[RackTemplate, ...] = ()
    by_zone: dict[str, RackTemplate] = {}
    selector: LabelSelector | None = None
    anything: dict[str, object] = {}


@kind("racks.example.com/v1", "racks")
class Rack(ApiObject, frozen=True, kw_only=True):
    """A kind whose struct has no status."""

    spec: RackSpec = RackSpec()


TYPO: dict[str, Any] = {"spec": {"containers": [{"imagePullPolicy": "Never", "resorces": {}}]}}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (
            {"apiVersion": "racks.example.com/v1", "kind": "Rack", "metadata": {"name": "r"}, "spec": {"rackSize": 1}},
            [],
        ),
        ({"spec": {"rackSiez": 1, "xyzzy": 1}}, [(("spec", "rackSiez"), "rackSize"), (("spec", "xyzzy"), None)]),
        ({"metadata": {"lables": {}}}, [(("metadata", "lables"), "labels")]),
        ({"sepc": {}, "status": {"not": "read"}}, [(("sepc",), "spec")]),
        ({"spec": {"anything": {"goes": 1}, "template": None, "templates": "x"}}, []),
        ({"spec": {"selector": {"matchLables": {}}}}, [(("spec", "selector", "matchLables"), "matchLabels")]),
        ({"spec": {"template": TYPO}}, [(("spec", "template", "spec", "containers", 0, "resorces"), "resources")]),
        (
            {"spec": {"templates": [TYPO], "byZone": {"a": {"sepc": 1}}}},
            [
                (("spec", "templates", 0, "spec", "containers", 0, "resorces"), "resources"),
                (("spec", "byZone", "a", "sepc"), "spec"),
            ],
        ),
    ],
)
def test_structs_are_the_schema_of_a_declared_kind(
    data: dict[str, Any], found: list[tuple[FieldPath, str | None]]
) -> None:
    assert [(field.path, field.nearest) for field in unknown_fields(data, "racks.example.com/v1", "Rack")] == found


def test_struct_that_preserves_unknown_fields_has_any() -> None:
    data = {"spec": {"size": 1, "sized": 1}, "status": {"phase": "Running", "written": "by others"}}
    assert spelled(data, "example.com/v1", "Gang") == ["spec.sized: unknown field"]


def test_kinds_of_one_name_have_models_of_their_own() -> None:
    assert spelled({"note": "x"}, "events.k8s.io/v1", "Event") == []
    assert spelled({"note": "x"}, "v1", "Event") == ["note: unknown field"]


def test_unknown_fields_are_left_out_of_a_copy() -> None:
    data: dict[str, Any] = {"spec": {"containers": [{"a": 1, "name": "c"}], "b": 1}, "c": 1}
    assert remove_fields(data, (field.path for field in unknown_fields(data, "v1", "Pod"))) == {
        "spec": {"containers": [{"name": "c"}]}
    }
    assert data["c"] == 1
    assert remove_fields(data, []) is data
