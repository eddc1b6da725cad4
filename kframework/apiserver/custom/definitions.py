"""Custom resources: a CustomResourceDefinition that somebody posts makes its kind a served one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from kframework.apiserver.custom.kinds import CustomKind
from kframework.apiserver.served import Resource, as_is
from kframework.apiserver.wire.documents import Data
from kframework.apiserver.wire.plain_data import entries
from kframework.objects import PrinterColumn, kind_named
from kframework.objects.kinds import Kind, foreign_kind, kind
from kframework.objects.meta import ApiObject, ApiStruct


class Names(ApiStruct, frozen=True, kw_only=True):
    """What the kind is called."""

    kind: str = ""
    plural: str = ""
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class Subresources(ApiStruct, frozen=True, kw_only=True):
    """Whether the status has a path of its own."""

    status: dict[str, object] | None = None


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
    kinds = {version.name: _kind(spec, version.name) for version in spec.versions}
    if not kinds:
        return
    declared = (each for each in kinds.values() if kind_named(each.api_version, each.name) is not None)
    marked = (kinds[version.name] for version in spec.versions if version.storage)
    stored = next(declared, None) or next(marked, None) or next(iter(kinds.values()))
    for version in spec.versions:
        served = kinds[version.name]
        if version.served:
            yield Resource(
                served,
                stored,
                spec.names.singular or spec.names.kind.lower(),
                spec.names.short_names,
                spec.names.categories,
                version.additional_printer_columns,
                has_status=version.subresources.status is not None,
                shown=as_is if served is stored else partial(_under, served.api_version),
                read=as_is if served is stored else partial(_under, stored.api_version),
                custom=CustomKind(version.schema.open_api_v3_schema or {}),
            )


def _kind(spec: Specification, version: str) -> Kind[ApiObject]:
    api_version = f"{spec.group}/{version}"
    known = kind_named(api_version, spec.names.kind)
    return known or foreign_kind(api_version, spec.names.kind, spec.names.plural, namespaced=spec.scope == "Namespaced")


def _under(api_version: str, data: Data) -> Data:
    return {**data, "apiVersion": api_version}


def accepted(definition: Data, now: str) -> Data:
    """Say in a definition's status that its kind is served: clients wait for that."""
    spec = definition.get("spec")
    versions = [version.get("name") for version in entries(spec, "versions") if version.get("storage")]
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]
    status = {
        "conditions": [{**condition, "lastTransitionTime": now} for condition in conditions],
        "acceptedNames": spec.get("names") if isinstance(spec, dict) else None,
        "storedVersions": versions,
    }
    return {**definition, "status": status}
