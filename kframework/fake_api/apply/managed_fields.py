"""`metadata.managedFields`: the manager, time and operation of each field; and sets of fields.

An element of a path is `f:NAME` for a field, `k:{...}` for a list element with these keys, `v:VALUE` for a set element,
`i:INDEX` for one at an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.objects.plain_data import mapping, value

Path = tuple[str, ...]
#: A set of fields. A field is not in it just because one below it is.
Fields = frozenset[Path]

NO_FIELDS: Fields = frozenset()

_ITSELF = "."


def field_element(name: str) -> str:
    return f"f:{name}"


def key_element(keys: Data) -> str:
    return f"k:{_encode(keys)}"


def value_element(value: object) -> str:
    return f"v:{_encode(value)}"


def encode_fields(fields: Iterable[Path]) -> Data:
    members = frozenset(fields)
    root: Data = {}
    for path in sorted(members):
        level = root
        for depth, element in enumerate(path):
            below = level.setdefault(element, {})
            assert isinstance(below, dict)
            if depth + 1 < len(path) and path[: depth + 1] in members:
                below.setdefault(_ITSELF, {})
            level = below
    return root


def decode_fields(fields: object) -> Fields:
    """Decode FieldsV1, without elements of unknown types; raises ValueError."""
    paths: set[Path] = set()
    waiting: list[tuple[Path, object]] = [((), fields)]
    while waiting:
        path, below = waiting.pop()
        if not isinstance(below, dict):
            raise ValueError(f"not a set of fields: {below!r:.100}")
        if path and (not below or _ITSELF in below):
            paths.add(path)
        for element, inner in below.items():
            kind, text = element[:2], element[2:]
            if kind in ("k:", "v:"):  # normalize: the same keys must be the same text
                try:
                    waiting.append(((*path, f"{kind}{_encode(msgspec.json.decode(text))}"), inner))
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"not an element of a path: {element:.100}") from error
            elif kind in ("f:", "i:"):
                waiting.append(((*path, element), inner))
    return frozenset(paths)


def format_field_path(path: Path) -> str:
    """Format a path as in messages: `.spec.containers[name="web"].image`."""
    parts = []
    for element in path:
        match element[:2], element[2:]:
            case "f:", text:
                parts.append(f".{text}")
            case "v:", text:
                parts.append(f"[={text}]")
            case "k:", text:
                keys = msgspec.json.decode(text, type=Data)
                parts.append(f"[{','.join(f'{name}={_encode(value)}' for name, value in keys.items())}]")
            case _, text:
                parts.append(f"[{text}]")
    return "".join(parts)


def sort_paths(fields: Iterable[Path]) -> list[Path]:
    """Sort fields as messages list them: a field before those below it."""
    return sorted(fields, key=lambda path: [(depth + 1 < len(path), element) for depth, element in enumerate(path)])


def _encode(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


APPLY, UPDATE = "Apply", "Update"

#: Most separate managers with operation Update; beyond that the oldest are merged.
MAX_UPDATERS = 10
ANCIENT_CHANGES = "ancient-changes"


class Owner(NamedTuple):
    """A manager of fields; one that applies has no version, so that it is the same in all versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        name = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            name = f'{name} with subresource "{self.subresource}"'
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


class ManagedFields(NamedTuple):
    """The fields of one owner; `api_version` is the version of their names, `time` may be empty."""

    api_version: str
    fields: Fields = NO_FIELDS
    time: str = ""


Managers = Mapping[Owner, ManagedFields]


class _Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: Data | None = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


def decode_managers(data: Data) -> dict[Owner, ManagedFields]:
    """Decode the managed fields of an object; raises ValueError."""
    managers: dict[Owner, ManagedFields] = {}
    for entry in msgspec.convert(value(data, "metadata.managedFields") or [], list[_Entry]):
        if entry.operation not in (APPLY, UPDATE) or not entry.api_version or entry.fields_type != "FieldsV1":
            raise ValueError(f"not an entry of managedFields: {entry!r:.200}")
        version = entry.api_version if entry.operation == UPDATE else ""
        owner = Owner(entry.manager, entry.operation, version, entry.subresource)
        managers[owner] = ManagedFields(entry.api_version, decode_fields(entry.fields_v1 or {}), entry.time or "")
    return managers


def is_reset(data: Data) -> bool:
    """Return whether an object resets its managed fields, by an empty list or an empty entry."""
    return mapping(data, "metadata").get("managedFields") in ([], [{}])


def with_managers(data: Data, managers: Managers) -> Data:
    """Return an object with these managed fields, without the field if there are none."""

    def rank(entry: tuple[Owner, ManagedFields]) -> tuple[str, ...]:
        owner, managed = entry
        return owner.operation, managed.time, owner.manager, managed.api_version, owner.subresource

    entries: list[Data] = []
    for owner, managed in sorted(managers.items(), key=rank):
        entry: Data = {"manager": owner.manager, "operation": owner.operation, "apiVersion": managed.api_version}
        if managed.time:
            entry["time"] = managed.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": encode_fields(managed.fields)}
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append(entry)
    return copy_managed_fields({"metadata": {"managedFields": entries}}, data)


def copy_managed_fields(source: Data, data: Data) -> Data:
    metadata = {field: value for field, value in mapping(data, "metadata").items() if field != "managedFields"}
    if entries := mapping(source, "metadata").get("managedFields"):
        metadata["managedFields"] = entries
    return {**data, "metadata": metadata}


def cap_updaters(managers: Managers) -> dict[Owner, ManagedFields]:
    merged = dict(managers)
    updaters = sorted(
        (owner for owner in merged if owner.operation == UPDATE), key=lambda each: (merged[each].time, each)
    )
    first: dict[str, Owner] = {}
    surplus = len(updaters) - MAX_UPDATERS
    for owner in updaters:
        if surplus <= 0:
            break
        version = owner.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Owner(ANCIENT_CHANGES, UPDATE, version)
        oldest, other = merged.pop(first[version]), merged.pop(owner)
        merged[bucket] = ManagedFields(version, oldest.fields | other.fields, other.time)
        first[version] = bucket
        surplus -= 1
    return merged
