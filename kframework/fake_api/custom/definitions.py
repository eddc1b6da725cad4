"""CustomResourceDefinitions: their validation, and the resources that they define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.custom.rules.spec import has_rules, rule_spec_causes
from kframework.fake_api.resources import ApiResource, ScalePaths, identity
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.schema.causes import Cause, forbidden, invalid, required, unsupported
from kframework.in_memory.schema.validator import Schema
from kframework.objects import PrinterColumn, find_kind
from kframework.objects.kinds import Kind, foreign_kind, kind
from kframework.objects.meta import ApiObject, ApiStruct
from kframework.objects.plain_data import entries, flag, mapping, name, text, value
from kframework.objects.syntax import dns_1035_label, dns_subdomain

_SCOPES = ("Cluster", "Namespaced")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_NOT_SUPPORTED = ("additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "id")
#: Fields that a structural schema allows only outside `allOf`, `anyOf`, `oneOf` and `not`, with the message.
_NOT_IN_JUNCTORS = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
}


def definition_causes(definition: Data) -> list[Cause]:
    """List why a definition is invalid; its names must have their defaults."""
    return [*_name_causes(definition), *_version_causes(definition)]


def fill_names(definition: Data) -> Data:
    spec = mapping(definition, "spec")
    names = mapping(spec, "names")
    if not (kind := text(names, "kind")):
        return definition
    defaults = {"singular": kind.lower(), "listKind": f"{kind}List"}
    explicit = {field: value for field, value in names.items() if value}
    conversion = spec.get("conversion") or {"strategy": "None"}
    return {**definition, "spec": {**spec, "names": defaults | explicit, "conversion": conversion}}


def _name_causes(definition: Data) -> Iterator[Cause]:
    spec = mapping(definition, "spec")
    names, group = mapping(spec, "names"), text(spec, "group")
    plural = text(names, "plural")
    problems = list(dns_subdomain(name(definition)))
    if name(definition) != f"{plural}.{group}":
        problems.append('must be spec.names.plural+"."+spec.group')
    yield from (invalid("metadata.name", name(definition), each) for each in problems)
    if not group:
        yield required("spec.group")
    elif messages := dns_subdomain(group):
        yield invalid("spec.group", group, ",".join(messages))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = text(spec, "scope")
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield unsupported("spec.scope", scope, _SCOPES)
    for field in ("plural", "singular", "kind", "listKind"):
        name_text = text(names, field)
        if not name_text:
            yield required(f"spec.names.{field}")
        elif messages := dns_1035_label(name_text.lower() if "ind" in field else name_text):
            mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
            yield invalid(f"spec.names.{field}", name_text, f"{mixed}{','.join(messages)}")
    if text(names, "kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        found_names = names.get(field)
        for index, each in enumerate(found_names if isinstance(found_names, list) else ()):
            if messages := dns_1035_label(str(each)):
                yield invalid(f"spec.names.{field}[{index}]", each, ",".join(messages))


def _version_causes(definition: Data) -> Iterator[Cause]:
    versions = entries(definition, "spec.versions")
    version_names = [text(version, "name") for version in versions]
    for index, version in enumerate(versions):
        location = f"spec.versions[{index}]"
        if messages := dns_1035_label(version_names[index]):
            yield invalid(f"{location}.name", version_names[index], ",".join(messages))
        schema = value(version, "schema.openAPIV3Schema")
        if not isinstance(schema, dict):
            yield required(f"{location}.schema.openAPIV3Schema", "schemas are required")
        else:
            path = f"{location}.schema.openAPIV3Schema"
            yield from (causes := list(_schema_causes(schema, path, root=True)))
            if not causes and has_rules(schema):
                from kframework.fake_api.custom.rules.tree import compilation_causes  # few definitions need CEL

                yield from compilation_causes(schema, path)
        yield from _column_causes(entries(version, "additionalPrinterColumns"), f"{location}.additionalPrinterColumns")
        scale = mapping(version, "subresources.scale")
        for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")) if scale else ():
            path, replicas = f"{location}.subresources.scale.{field}", text(scale, field)
            if not replicas:
                yield required(path)
            elif not replicas.startswith(f"{root}."):
                yield invalid(path, replicas, f"should be a json path under {root}")
    if len(set(version_names)) != len(version_names):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(flag(version, "storage") for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _column_causes(columns: Sequence[Data], path: str) -> Iterator[Cause]:
    supported = f"must be one of {','.join(_COLUMN_TYPES)}"
    for index, column in enumerate(columns):
        for field in ("name", "type", "jsonPath"):
            if not text(column, field):
                location = f"{path}[{index}].{'JSONPath' if field == 'jsonPath' else field}"
                yield required(location, supported if field == "type" else "")
        if (kind := text(column, "type")) and kind not in _COLUMN_TYPES:
            yield invalid(f"{path}[{index}].type", kind, supported)


def _schema_causes(schema: Schema, path: str, *, root: bool) -> Iterator[Cause]:
    kind = schema.get("type")
    is_free = schema.get("x-kubernetes-int-or-string") is True
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if kind is None or kind == "":
        if root:
            yield required(f"{path}.type", "must not be empty at the root")
        elif not is_free and not preserves:
            parent = "array items" if path.endswith(".items") else "object fields"
            yield required(f"{path}.type", f"must not be empty for specified {parent}")
    elif root and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    if root and schema.get("nullable") is True:
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if root and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get("uniqueItems") is True:
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", message)
    if schema.get("properties") and schema.get("additionalProperties"):
        message = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", message)
    if "x-kubernetes-preserve-unknown-fields" in schema and not preserves:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for field in _NOT_SUPPORTED:
        if schema.get(field):
            yield forbidden(f"{path}.{field}", f"{field} is not supported")
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        yield required(f"{path}.items", "must be specified")
    yield from _list_causes(schema, path)
    yield from _nested_causes(schema, path)
    yield from rule_spec_causes(entries(schema, "x-kubernetes-validations"), schema, f"{path}.x-kubernetes-validations")


def _list_causes(schema: Schema, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if list_type is not None and schema.get("type") != "array":
        message = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", schema.get("type", ""), message)
    if keys and list_type != "map":
        message = "must be map if x-kubernetes-list-map-keys is non-empty"
        location = f"{path}.x-kubernetes-list-type"
        yield required(location, message) if list_type is None else invalid(location, list_type, message)
    if list_type == "map" and not keys:
        message = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", message)


def _nested_causes(schema: Schema, path: str) -> Iterator[Cause]:
    for field, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict) and (path.count(".properties[") or field not in ("metadata", "apiVersion", "kind")):
            yield from _schema_causes(inner, f"{path}.properties[{field}]", root=False)
    for field in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(field), dict):
            yield from _schema_causes(inner, f"{path}.{field}", root=False)
    free = schema.get("x-kubernetes-int-or-string") is True
    for field in ("allOf", "anyOf", "oneOf"):
        several = schema.get(field)
        for index, inner in enumerate(several if isinstance(several, list) else ()):
            if isinstance(inner, dict) and not free:
                yield from _junctor_causes(inner, f"{path}.{field}[{index}]")
    if isinstance(unwanted := schema.get("not"), dict):
        yield from _junctor_causes(unwanted, f"{path}.not")


def _junctor_causes(schema: Schema, path: str) -> Iterator[Cause]:
    for field, message in _NOT_IN_JUNCTORS.items():
        if schema.get(field):
            yield forbidden(f"{path}.{field}", message)
    for field, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            yield from _junctor_causes(inner, f"{path}.properties[{field}]")
    if isinstance(items := schema.get("items"), dict):
        yield from _junctor_causes(items, f"{path}.items")


class _CustomNames(ApiStruct, frozen=True, kw_only=True):
    kind: str = ""
    plural: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ScaleSubresource(ApiStruct, frozen=True, kw_only=True):
    """Paths to the desired and the actual number of replicas."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str = ""


class _Subresources(ApiStruct, frozen=True, kw_only=True):
    status: dict[str, object] | None = None
    scale: _ScaleSubresource | None = None


class _Validation(ApiStruct, frozen=True, kw_only=True):
    open_api_v3_schema: dict[str, object] | None = msgspec.field(default=None, name="openAPIV3Schema")


class _CustomVersion(ApiStruct, frozen=True, kw_only=True):
    name: str = ""
    served: bool = False
    storage: bool = False
    schema: _Validation = _Validation()
    subresources: _Subresources = _Subresources()
    additional_printer_columns: tuple[PrinterColumn, ...] = ()


class _Specification(ApiStruct, frozen=True, kw_only=True):
    group: str = ""
    names: _CustomNames = _CustomNames()
    scope: str = ""
    versions: tuple[_CustomVersion, ...] = ()


@kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
class CustomResourceDefinition(ApiObject, frozen=True, kw_only=True):
    """The definition of a custom kind."""

    spec: _Specification = _Specification()
    status: dict[str, object] = msgspec.field(default_factory=dict)


def defined_resources(definition: CustomResourceDefinition) -> Iterator[ApiResource]:
    """Yield the resources of a definition: one per served version, all views of the same objects.

    Objects are stored in a version that a plugin has declared, if there is one, so that the plugin can read them.
    """
    spec = definition.spec
    kinds: dict[str, Kind[ApiObject]] = {}
    for version in spec.versions:
        names = f"{spec.group}/{version.name}", spec.names.kind
        foreign = foreign_kind(*names, spec.names.plural, namespaced=spec.scope == "Namespaced")
        kinds[version.name] = find_kind(*names) or foreign
    if not kinds or not _has_accepted_names(definition.status):
        return
    declared = (each for each in kinds.values() if find_kind(each.api_version, each.name) is not None)
    marked = (kinds[version.name] for version in spec.versions if version.storage)
    stored = next(declared, None) or next(marked, None) or next(iter(kinds.values()))
    for version in spec.versions:
        served, parts, paths = kinds[version.name], version.subresources, None
        if parts.scale is not None:
            paths = ScalePaths(*(path.removeprefix(".") for path in msgspec.structs.astuple(parts.scale)))
        if version.served:
            yield ApiResource(
                served,
                stored,
                spec.names.singular or spec.names.kind.lower(),
                spec.names.short_names,
                spec.names.categories,
                version.additional_printer_columns,
                subresources=frozenset(name for name in ("status", "scale") if getattr(parts, name) is not None),
                scale=paths,
                to_view=identity if served is stored else partial(_with_api_version, served.api_version),
                from_view=identity if served is stored else partial(_with_api_version, stored.api_version),
                custom=CustomKind(version.schema.open_api_v3_schema),
            )


def _with_api_version(api_version: str, data: Data) -> Data:
    return {**data, "apiVersion": api_version}


def _has_accepted_names(status: Data) -> bool:
    return not any(
        each.get("type") == "NamesAccepted" and each.get("status") == "False" for each in entries(status, "conditions")
    )


def establish(definition: Data, now: str, others: Iterable[CustomResourceDefinition] = ()) -> Data:
    """Return a definition with the status that clients wait for: whether its kind is served.

    It is not if a served definition of the same group uses one of its names.
    """
    spec = mapping(definition, "spec")
    versions = [version.get("name") for version in entries(spec, "versions") if version.get("storage")]
    served = [
        each.spec for each in others if _has_accepted_names(each.status) and each.metadata.name != name(definition)
    ]
    reason, message = _name_conflict(spec, [each for each in served if each.group == spec.get("group")])
    is_accepted = reason == "NoConflicts"
    established = ("NotAccepted", "not all names are accepted")
    if is_accepted:
        established = ("InitialNamesAccepted", "the initial names have been accepted")
    common = {"status": str(is_accepted), "lastTransitionTime": now}
    status = {
        "conditions": [
            {"type": "NamesAccepted", "reason": reason, "message": message, **common},
            {"type": "Established", "reason": established[0], "message": established[1], **common},
        ],
        "acceptedNames": spec.get("names") if is_accepted else {"kind": "", "plural": ""},
        "storedVersions": versions,
    }
    return {**definition, "status": status}


def _name_conflict(spec: Data, served: Iterable[_Specification]) -> tuple[str, str]:
    resources, kinds = set[str](), set[str]()
    for other in served:
        resources |= {other.names.plural, other.names.singular, *other.names.short_names}
        kinds |= {other.names.kind, other.names.list_kind}
    names = mapping(spec, "names")
    conflict = ("NoConflicts", "no conflicts found")
    for field, used in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        if (wanted := text(names, field)) in used and wanted:
            conflict = f"{field[0].upper()}{field[1:]}Conflict", f'"{wanted}" is already in use'
    short = names.get("shortNames")
    if used_names := [each for each in (short if isinstance(short, list) else ()) if each in resources]:
        messages = [f'"{each}" is already in use' for each in used_names]
        conflict = "ShortNamesConflict", messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    return conflict
