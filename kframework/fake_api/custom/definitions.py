"""CustomResourceDefinitions: whether they can be served, and the kinds that they define."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.custom.rules.written import has_rules, written_causes
from kframework.fake_api.schema.causes import Cause, forbidden, invalid, required, unsupported
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.served import Resource, ScalePaths, as_is
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, flag, mapping, name, text, value
from kframework.objects import PrinterColumn, kind_named
from kframework.objects.kinds import Kind, foreign_kind, kind
from kframework.objects.meta import ApiObject, ApiStruct
from kframework.objects.syntax import dns_1035_label, dns_subdomain

_SCOPES = ("Cluster", "Namespaced")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_NOT_SUPPORTED = ("additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "id")
#: What stands outside of `allOf` and the like only, if a schema is structural, and how that is said.
_OUTSIDE = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
}


def causes_of(definition: Data) -> list[Cause]:
    """List what keeps a definition from being valid, with the defaults of its names filled in."""
    return [*_of_names(definition), *_of_versions(definition)]


def named(definition: Data) -> Data:
    """Return a definition with the names that follow from its kind."""
    spec = mapping(definition, "spec")
    names = mapping(spec, "names")
    if not (kind := text(names, "kind")):
        return definition
    filled = {"singular": kind.lower(), "listKind": f"{kind}List"}
    told = {field: found for field, found in names.items() if found}
    conversion = spec.get("conversion") or {"strategy": "None"}
    return {**definition, "spec": {**spec, "names": filled | told, "conversion": conversion}}


def _of_names(definition: Data) -> Iterator[Cause]:
    spec = mapping(definition, "spec")
    names, group = mapping(spec, "names"), text(spec, "group")
    plural = text(names, "plural")
    wrong = list(dns_subdomain(name(definition)))
    if name(definition) != f"{plural}.{group}":
        wrong.append('must be spec.names.plural+"."+spec.group')
    yield from (invalid("metadata.name", name(definition), each) for each in wrong)
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
        found = text(names, field)
        if not found:
            yield required(f"spec.names.{field}")
        elif messages := dns_1035_label(found.lower() if "ind" in field else found):
            mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
            yield invalid(f"spec.names.{field}", found, f"{mixed}{','.join(messages)}")
    if text(names, "kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for field in ("shortNames", "categories"):
        found_names = names.get(field)
        for index, each in enumerate(found_names if isinstance(found_names, list) else ()):
            if messages := dns_1035_label(str(each)):
                yield invalid(f"spec.names.{field}[{index}]", each, ",".join(messages))


def _of_versions(definition: Data) -> Iterator[Cause]:
    versions = entries(definition, "spec.versions")
    found = [text(version, "name") for version in versions]
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        if messages := dns_1035_label(found[index]):
            yield invalid(f"{place}.name", found[index], ",".join(messages))
        schema = value(version, "schema.openAPIV3Schema")
        if not isinstance(schema, dict):
            yield required(f"{place}.schema.openAPIV3Schema", "schemas are required")
        else:
            path = f"{place}.schema.openAPIV3Schema"
            yield from (causes := list(_of_schema(schema, path, root=True)))
            if not causes and has_rules(schema):
                from kframework.fake_api.custom.rules.tree import compiled_causes  # few definitions need CEL

                yield from compiled_causes(schema, path)
        yield from _of_columns(entries(version, "additionalPrinterColumns"), f"{place}.additionalPrinterColumns")
        scale = mapping(version, "subresources.scale")
        for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")) if scale else ():
            path, replicas = f"{place}.subresources.scale.{field}", text(scale, field)
            if not replicas:
                yield required(path)
            elif not replicas.startswith(f"{root}."):
                yield invalid(path, replicas, f"should be a json path under {root}")
    if len(set(found)) != len(found):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(flag(version, "storage") for version in versions) != 1:
        yield invalid("spec.versions", versions, "must have exactly one version marked as storage version")


def _of_columns(columns: Sequence[Data], path: str) -> Iterator[Cause]:
    supported = f"must be one of {','.join(_COLUMN_TYPES)}"
    for index, column in enumerate(columns):
        for field in ("name", "type", "jsonPath"):
            if not text(column, field):
                place = f"{path}[{index}].{'JSONPath' if field == 'jsonPath' else field}"
                yield required(place, supported if field == "type" else "")
        if (kind := text(column, "type")) and kind not in _COLUMN_TYPES:
            yield invalid(f"{path}[{index}].type", kind, supported)


def _of_schema(schema: Schema, path: str, *, root: bool) -> Iterator[Cause]:
    kind = schema.get("type")
    is_free = schema.get("x-kubernetes-int-or-string") is True
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    if kind is None or kind == "":
        if root:
            yield required(f"{path}.type", "must not be empty at the root")
        elif not is_free and not preserves:
            where = "array items" if path.endswith(".items") else "object fields"
            yield required(f"{path}.type", f"must not be empty for specified {where}")
    elif root and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    elif kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    if root and schema.get("nullable") is True:
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if root and "additionalProperties" in schema:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get("uniqueItems") is True:
        said = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", said)
    if schema.get("properties") and schema.get("additionalProperties"):
        said = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", said)
    if "x-kubernetes-preserve-unknown-fields" in schema and not preserves:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    for field in _NOT_SUPPORTED:
        if schema.get(field):
            yield forbidden(f"{path}.{field}", f"{field} is not supported")
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        yield required(f"{path}.items", "must be specified")
    yield from _of_list(schema, path)
    yield from _of_inner(schema, path)
    yield from written_causes(entries(schema, "x-kubernetes-validations"), schema, f"{path}.x-kubernetes-validations")


def _of_list(schema: Schema, path: str) -> Iterator[Cause]:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield unsupported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if list_type is not None and schema.get("type") != "array":
        said = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", schema.get("type", ""), said)
    if keys and list_type != "map":
        said = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        yield required(place, said) if list_type is None else invalid(place, list_type, said)
    if list_type == "map" and not keys:
        said = "must not be empty if x-kubernetes-list-type is map"
        yield required(f"{path}.x-kubernetes-list-map-keys", said)


def _of_inner(schema: Schema, path: str) -> Iterator[Cause]:
    properties = schema.get("properties")
    for field, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict) and (path.count(".properties[") or field not in ("metadata", "apiVersion", "kind")):
            yield from _of_schema(inner, f"{path}.properties[{field}]", root=False)
    for field in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(field), dict):
            yield from _of_schema(inner, f"{path}.{field}", root=False)
    free = schema.get("x-kubernetes-int-or-string") is True
    for field in ("allOf", "anyOf", "oneOf"):
        several = schema.get(field)
        for index, inner in enumerate(several if isinstance(several, list) else ()):
            if isinstance(inner, dict) and not free:
                yield from _of_part(inner, f"{path}.{field}[{index}]")
    if isinstance(unwanted := schema.get("not"), dict):
        yield from _of_part(unwanted, f"{path}.not")


def _of_part(schema: Schema, path: str) -> Iterator[Cause]:
    for field, said in _OUTSIDE.items():
        if schema.get(field):
            yield forbidden(f"{path}.{field}", said)
    properties = schema.get("properties")
    for field, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict):
            yield from _of_part(inner, f"{path}.properties[{field}]")
    if isinstance(items := schema.get("items"), dict):
        yield from _of_part(items, f"{path}.items")


class Names(ApiStruct, frozen=True, kw_only=True):
    """What the kind is called."""

    kind: str = ""
    plural: str = ""
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class ScaleSubresource(ApiStruct, frozen=True, kw_only=True):
    """Where objects say how many replicas they are to have, and have."""

    spec_replicas_path: str = ""
    status_replicas_path: str = ""
    label_selector_path: str = ""


class Subresources(ApiStruct, frozen=True, kw_only=True):
    """Whether the status and the scale have paths of their own."""

    status: dict[str, object] | None = None
    scale: ScaleSubresource | None = None


class Validation(ApiStruct, frozen=True, kw_only=True):
    """What objects of a version look like."""

    open_api_v3_schema: dict[str, object] | None = msgspec.field(default=None, name="openAPIV3Schema")


class Version(ApiStruct, frozen=True, kw_only=True):
    """A version in which the kind is served."""

    name: str = ""
    served: bool = False
    storage: bool = False
    schema: Validation = Validation()
    subresources: Subresources = Subresources()
    additional_printer_columns: tuple[PrinterColumn, ...] = ()


class Specification(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a definition."""

    group: str = ""
    names: Names = Names()
    scope: str = ""
    versions: tuple[Version, ...] = ()


@kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
class CustomResourceDefinition(ApiObject, frozen=True, kw_only=True):
    """A kind that a user defines."""

    spec: Specification = Specification()
    status: dict[str, object] = msgspec.field(default_factory=dict)


def defined(definition: CustomResourceDefinition) -> Iterator[Resource]:
    """List what a definition serves: its kind in every served version, all of them views of the same objects.

    The objects are kept under a version that a plugin has declared, if there is one: then it can read them.
    """
    spec = definition.spec
    kinds: dict[str, Kind[ApiObject]] = {}
    for version in spec.versions:
        names = f"{spec.group}/{version.name}", spec.names.kind
        foreign = foreign_kind(*names, spec.names.plural, namespaced=spec.scope == "Namespaced")
        kinds[version.name] = kind_named(*names) or foreign
    if not kinds or not _names_accepted(definition.status):
        return
    declared = (each for each in kinds.values() if kind_named(each.api_version, each.name) is not None)
    marked = (kinds[version.name] for version in spec.versions if version.storage)
    stored = next(declared, None) or next(marked, None) or next(iter(kinds.values()))
    for version in spec.versions:
        served, parts, paths = kinds[version.name], version.subresources, None
        if parts.scale is not None:
            paths = ScalePaths(*(path.removeprefix(".") for path in msgspec.structs.astuple(parts.scale)))
        if version.served:
            yield Resource(
                served,
                stored,
                spec.names.singular or spec.names.kind.lower(),
                spec.names.short_names,
                spec.names.categories,
                version.additional_printer_columns,
                subresources=frozenset(name for name in ("status", "scale") if getattr(parts, name) is not None),
                scale=paths,
                shown=as_is if served is stored else partial(_under, served.api_version),
                read=as_is if served is stored else partial(_under, stored.api_version),
                custom=CustomKind(version.schema.open_api_v3_schema),
            )


def _under(api_version: str, data: Data) -> Data:
    return {**data, "apiVersion": api_version}


def _names_accepted(status: Data) -> bool:
    """Return whether nothing is known against the names of a definition."""
    return not any(
        each.get("type") == "NamesAccepted" and each.get("status") == "False" for each in entries(status, "conditions")
    )


def accepted(definition: Data, now: str, others: Iterable[CustomResourceDefinition] = ()) -> Data:
    """Say in a definition's status whether its kind is served: clients wait for that.

    It is not if another definition of the group, of those that are served, has one of its names.
    """
    spec = mapping(definition, "spec")
    versions = [version.get("name") for version in entries(spec, "versions") if version.get("storage")]
    served = [each.spec for each in others if _names_accepted(each.status) and each.metadata.name != name(definition)]
    reason, message = _conflict(spec, [each for each in served if each.group == spec.get("group")])
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


def _conflict(spec: Data, served: Iterable[Specification]) -> tuple[str, str]:
    """Find the name that another one has, in the words of the API server's naming controller."""
    resources, kinds = set[str](), set[str]()
    for other in served:
        resources |= {other.names.plural, other.names.singular, *other.names.short_names}
        kinds |= {other.names.kind, other.names.list_kind}
    names = mapping(spec, "names")
    found = ("NoConflicts", "no conflicts found")
    for field, used in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        if (wanted := text(names, field)) in used and wanted:
            found = f"{field[0].upper()}{field[1:]}Conflict", f'"{wanted}" is already in use'
    short = names.get("shortNames")
    if taken := [each for each in (short if isinstance(short, list) else ()) if each in resources]:
        said = [f'"{each}" is already in use' for each in taken]
        found = "ShortNamesConflict", said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    return found
