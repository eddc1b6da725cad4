"""A definition is refused with all that is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.custom.definitions import definition_causes, fill_names


def definition(schema: Any = None, **changes: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object"} if schema is None else schema}
    spec = {
        "group": "example.com",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [version],
    }
    return fill_names({"metadata": {"name": "widgets.example.com"}, "spec": spec | changes})


SCHEMA = "spec.versions[0].schema.openAPIV3Schema"


def of_field(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (definition(), []),
        (definition(group="example.org"), ['metadata.name: Invalid value: "widgets.example.com": must be spec.names.']),
        (definition(scope=""), ["spec.scope: Required value"]),
        (definition(scope="Global"), ['spec.scope: Unsupported value: "Global": supported values: "Cluster", "Nam']),
        (
            definition(versions=[]),
            ["spec.versions: Invalid value: []: must have exactly one version"],
        ),
        (
            definition(versions=[{"name": "v1", "storage": True}]),
            [f"{SCHEMA}: Required value: schemas are required"],
        ),
        (definition({}), [f"{SCHEMA}.type: Required value: must not be empty at the root"]),
        (definition({"type": "array"}), [f'{SCHEMA}.type: Invalid value: "array": must be object at the root', "spec"]),
        (definition(of_field()), [f"{SCHEMA}.properties[a].type: Required value: must not be empty for specified obj"]),
        (definition(of_field(type="text")), [f'{SCHEMA}.properties[a].type: Unsupported value: "text": supported va']),
        (definition(of_field(type="array")), [f"{SCHEMA}.properties[a].items: Required value: must be specified"]),
        (
            definition(of_field(type="string", oneOf=[{"type": "string"}])),
            [f"{SCHEMA}.properties[a].oneOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (definition(of_field(**{"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]})), []),
        (
            definition(of_field(type="array", items={"type": "object"}, **{"x-kubernetes-list-type": "map"})),
            [f"{SCHEMA}.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if"],
        ),
    ],
)
def test_invalid_definition_has_causes(changed: dict[str, Any], found: list[str]) -> None:
    result = list(map(str, definition_causes(changed)))
    assert len(result) == len(found), result
    assert all(text.startswith(beginning) for text, beginning in zip(result, found, strict=True)), result


def test_names_default_to_the_kind() -> None:
    spec = definition()["spec"]
    assert spec["names"] == {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
    assert spec["conversion"] == {"strategy": "None"}
    assert fill_names({"spec": {}}) == {"spec": {}}
