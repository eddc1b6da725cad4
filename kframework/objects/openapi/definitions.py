"""The definitions of Kubernetes' OpenAPI document: the fields of each type, and how they merge.

The document is read when a definition is first requested, which takes 20 ms; each definition is decoded by itself.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec

_FILE = Path(__file__).with_name("kubernetes-1.37.json.gz")
#: The prefix of a reference, before the name of a definition.
REFERENCE = "#/definitions/"

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

#: Types with a JSON form of their own. Other definitions without fields may hold anything.
_VALUES = frozenset({"IntOrString", "MicroTime", "Quantity", "Time"})


class Schema(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A schema of the document, with the names of fields that it has there."""

    description: str = ""
    type: str = ""
    format: str = ""
    reference: str = msgspec.field(name="$ref", default="")
    items: Schema | None = None
    additional_properties: Schema | None = msgspec.field(name="additionalProperties", default=None)
    properties: dict[str, Schema] = {}
    required: tuple[str, ...] = ()
    list_type: str = msgspec.field(name="x-kubernetes-list-type", default="")
    list_map_keys: tuple[str, ...] = msgspec.field(name="x-kubernetes-list-map-keys", default=())
    map_type: str = msgspec.field(name="x-kubernetes-map-type", default="")
    patch_strategy: str = msgspec.field(name="x-kubernetes-patch-strategy", default="")
    patch_merge_key: str = msgspec.field(name="x-kubernetes-patch-merge-key", default="")
    kinds: tuple[dict[str, str], ...] = msgspec.field(name="x-kubernetes-group-version-kind", default=())

    @property
    def definition_name(self) -> str:
        return self.reference.removeprefix(REFERENCE)

    @property
    def element(self) -> Schema:
        """The schema of the elements of a list or a map; of other values, their own."""
        return self.items or self.additional_properties or self

    @property
    def value_type(self) -> str:
        """The type of a value that is neither a list, a map nor an object with fields.

        One of `string`, `byte`, `boolean`, `int32`, `int64`, `double`, `Quantity`, `IntOrString`, `Time`, `MicroTime`,
        and `object` for a value of any type.
        """
        if self.reference:
            name = short_name(self.definition_name)
            return name if name in _VALUES else "object"
        return self.format or self.type


NO_SCHEMA = Schema()


class _Document(msgspec.Struct, gc=False):
    definitions: dict[str, msgspec.Raw]


class _Kinds(msgspec.Struct, gc=False):
    kinds: tuple[dict[str, str], ...] = msgspec.field(name="x-kubernetes-group-version-kind", default=())


@cache
def read_document() -> _Document:
    """Read the document, in a thread where a definition would first be needed in an event loop."""
    return msgspec.json.decode(gzip.decompress(_FILE.read_bytes()), type=_Document)


@cache
def definition(name: str) -> Schema:
    """Return a definition by its name, such as `io.k8s.api.core.v1.Pod`; an empty schema if there is none."""
    raw = read_document().definitions.get(name)
    return NO_SCHEMA if raw is None else msgspec.json.decode(raw, type=Schema)


def properties(name: str) -> Mapping[str, Schema]:
    """Return the fields of a definition; empty if it has none or does not exist."""
    return definition(name).properties


def field_of(schema: Schema, name: str) -> Schema:
    """Return the schema of a field of an object, or of a list's elements; an empty schema if there is no such field."""
    while schema.items is not None:
        schema = schema.items
    if schema.reference:
        schema = definition(schema.definition_name)
    return schema.properties.get(name) or schema.additional_properties or NO_SCHEMA


def reference_to(name: str) -> Schema:
    return Schema(reference=f"{REFERENCE}{name}")


@lru_cache(maxsize=1024)
def definition_of(api_version: str, kind: str) -> str | None:
    """Find the name of a kind's definition; None for a kind that is not Kubernetes' own."""
    group, _, version = api_version.rpartition("/")
    return _by_kind().get((group, version, kind))


@cache
def kinds_of_group(group: str) -> frozenset[str]:
    """Name the kinds of a group of Kubernetes, in any version; none for another group."""
    return frozenset(kind for known, _, kind in _by_kind() if known == group)


@cache
def _by_kind() -> Mapping[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, raw in read_document().definitions.items()
        for kind in msgspec.json.decode(raw, type=_Kinds).kinds
    }


def reachable(names: Iterable[str]) -> Iterator[str]:
    """Yield these definitions and those that they refer to, each once."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            yield name
            for schema in properties(name).values():
                while schema.element is not schema:  # it may hold lists of maps
                    schema = schema.element
                if schema.definition_name:
                    waiting.append(schema.definition_name)


def short_name(name: str) -> str:
    """Return the name of a type without its package: `Pod` of `io.k8s.api.core.v1.Pod`."""
    return name.rpartition(".")[2]
