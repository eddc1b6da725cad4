"""Custom resources: a CustomResourceDefinition that somebody posts makes its kind a served one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.scales import ScalePaths
from kframework.fake_api.served import Resource, as_is
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, name, text
from kframework.objects import PrinterColumn, kind_named
from kframework.objects.kinds import Kind, foreign_kind, kind
from kframework.objects.meta import ApiObject, ApiStruct


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

    @property
    def paths(self) -> ScalePaths:
        """The same without the dot that each begins with."""
        written = (self.spec_replicas_path, self.status_replicas_path, self.label_selector_path)
        return ScalePaths(*(path.removeprefix(".") for path in written))


class Subresources(ApiStruct, frozen=True, kw_only=True):
    """Whether the status and the scale have paths of their own."""

    status: dict[str, object] | None = None
    scale: ScaleSubresource | None = None

    @property
    def names(self) -> frozenset[str]:
        """Which of the two have."""
        return frozenset(name for name in ("status", "scale") if getattr(self, name) is not None)


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
    if not kinds or not _names_accepted(definition.status):
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
                subresources=version.subresources.names,
                scale=scale.paths if (scale := version.subresources.scale) is not None else None,
                shown=as_is if served is stored else partial(_under, served.api_version),
                read=as_is if served is stored else partial(_under, stored.api_version),
                custom=CustomKind(version.schema.open_api_v3_schema),
            )


def _kind(spec: Specification, version: str) -> Kind[ApiObject]:
    api_version = f"{spec.group}/{version}"
    known = kind_named(api_version, spec.names.kind)
    return known or foreign_kind(api_version, spec.names.kind, spec.names.plural, namespaced=spec.scope == "Namespaced")


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
    conditions = [
        _condition("NamesAccepted", is_accepted, reason, message),
        _condition("Established", is_accepted, "InitialNamesAccepted", "the initial names have been accepted")
        if is_accepted
        else _condition("Established", is_accepted, "NotAccepted", "not all names are accepted"),
    ]
    status = {
        "conditions": [{**condition, "lastTransitionTime": now} for condition in conditions],
        "acceptedNames": spec.get("names") if is_accepted else {"kind": "", "plural": ""},
        "storedVersions": versions,
    }
    return {**definition, "status": status}


def _condition(kind: str, holds: bool, reason: str, message: str) -> Data:
    return {"type": kind, "status": str(holds), "reason": reason, "message": message}


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
