"""`metadata.managedFields`: who manages which fields, since when, by which kind of request; and sets of fields.

An element of a path is `f:NAME` for a field, `k:{...}` for the element of a list with these keys, `v:VALUE` for that of
a set, `i:INDEX` for one at a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, value

Path = tuple[str, ...]
#: Which fields there are, or whose they are. A field is not in it because one below it is.
Fields = frozenset[Path]

NO_FIELDS: Fields = frozenset()

_ITSELF = "."


def field(name: str) -> str:
    """Name a field of an object or a key of a map."""
    return f"f:{name}"


def keyed(keys: Data) -> str:
    """Name the element of a list that has these keys."""
    return f"k:{_text(keys)}"


def valued(value: object) -> str:
    """Name the element of a set."""
    return f"v:{_text(value)}"


def written(fields: Iterable[Path]) -> Data:
    """Write a set as FieldsV1."""
    members = frozenset(fields)
    root: Data = {}
    for path in sorted(members):
        place = root
        for depth, element in enumerate(path):
            below = place.setdefault(element, {})
            assert isinstance(below, dict)
            if depth + 1 < len(path) and path[: depth + 1] in members:
                below.setdefault(_ITSELF, {})
            place = below
    return root


def read(fields: object) -> Fields:
    """Read FieldsV1, but for elements of kinds that are not known; ValueError for what is none."""
    found: set[Path] = set()
    waiting: list[tuple[Path, object]] = [((), fields)]
    while waiting:
        path, below = waiting.pop()
        if not isinstance(below, dict):
            raise ValueError(f"not a set of fields: {below!r:.100}")
        if path and (not below or _ITSELF in below):
            found.add(path)
        for element, inner in below.items():
            kind, text = element[:2], element[2:]
            if kind in ("k:", "v:"):  # the same keys in the same order are the same text
                try:
                    waiting.append(((*path, f"{kind}{_text(msgspec.json.decode(text))}"), inner))
                except (ValueError, RecursionError) as error:
                    raise ValueError(f"not an element of a path: {element:.100}") from error
            elif kind in ("f:", "i:"):
                waiting.append(((*path, element), inner))
    return frozenset(found)


def in_words(path: Path) -> str:
    """Write a path as messages have it: `.spec.containers[name="web"].image`."""
    words = []
    for element in path:
        match element[:2], element[2:]:
            case "f:", text:
                words.append(f".{text}")
            case "v:", text:
                words.append(f"[={text}]")
            case "k:", text:
                keys = msgspec.json.decode(text, type=Data)
                words.append(f"[{','.join(f'{name}={_text(value)}' for name, value in keys.items())}]")
            case _, text:
                words.append(f"[{text}]")
    return "".join(words)


def in_order(fields: Iterable[Path]) -> list[Path]:
    """Sort fields as messages name them: those of a place before those below it."""
    return sorted(fields, key=lambda path: [(depth + 1 < len(path), element) for depth, element in enumerate(path)])


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


APPLY, UPDATE = "Apply", "Update"

#: So many managers that update are kept apart; the oldest of more become one.
MOST_UPDATERS = 10
ANCIENT_CHANGES = "ancient-changes"


class Owner(NamedTuple):
    """Who manages fields: who applies has no version, so that he is the same one under another."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        """Write it as messages about conflicts do."""
        name = msgspec.json.encode(self.manager).decode()
        if self.subresource:
            name = f'{name} with subresource "{self.subresource}"'
        return f"{name} using {self.api_version}" if self.operation == UPDATE else name


class Managed(NamedTuple):
    """What one owner manages; `api_version` is that in which it names the fields, `time` may be empty."""

    api_version: str
    fields: Fields = NO_FIELDS
    time: str = ""


Managers = Mapping[Owner, Managed]


class _Entry(msgspec.Struct, rename="camel", omit_defaults=True):
    """An entry as the API has it."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: Data | None = msgspec.field(default=None, name="fieldsV1")
    subresource: str = ""


def managers_of(data: Data) -> dict[Owner, Managed]:
    """Read the managed fields of an object; ValueError for such as are none."""
    found: dict[Owner, Managed] = {}
    for entry in msgspec.convert(value(data, "metadata.managedFields") or [], list[_Entry]):
        if entry.operation not in (APPLY, UPDATE) or not entry.api_version or entry.fields_type != "FieldsV1":
            raise ValueError(f"not an entry of managedFields: {entry!r:.200}")
        version = entry.api_version if entry.operation == UPDATE else ""
        owner = Owner(entry.manager, entry.operation, version, entry.subresource)
        found[owner] = Managed(entry.api_version, read(entry.fields_v1 or {}), entry.time or "")
    return found


def are_reset(data: Data) -> bool:
    """Return whether an object says that nobody manages anything of it: by an empty list, or by an empty entry."""
    return mapping(data, "metadata").get("managedFields") in ([], [{}])


def with_managers(data: Data, managers: Managers) -> Data:
    """Return an object with these managed fields, none where nobody manages anything."""

    def rank(entry: tuple[Owner, Managed]) -> tuple[str, ...]:
        owner, managed = entry
        return owner.operation, managed.time, owner.manager, managed.api_version, owner.subresource

    entries: list[Data] = []
    for owner, managed in sorted(managers.items(), key=rank):
        entry: Data = {"manager": owner.manager, "operation": owner.operation, "apiVersion": managed.api_version}
        if managed.time:
            entry["time"] = managed.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": written(managed.fields)}
        if owner.subresource:
            entry["subresource"] = owner.subresource
        entries.append(entry)
    return managed_as({"metadata": {"managedFields": entries}}, data)


def managed_as(source: Data, data: Data) -> Data:
    """Return an object with the managed fields of another."""
    metadata = {field: said for field, said in mapping(data, "metadata").items() if field != "managedFields"}
    if entries := mapping(source, "metadata").get("managedFields"):
        metadata["managedFields"] = entries
    return {**data, "metadata": metadata}


def capped(managers: Managers) -> dict[Owner, Managed]:
    """Return managers of which not too many update: the oldest of each version become one."""
    left = dict(managers)
    updaters = sorted((owner for owner in left if owner.operation == UPDATE), key=lambda each: (left[each].time, each))
    first: dict[str, Owner] = {}
    surplus = len(updaters) - MOST_UPDATERS
    for owner in updaters:
        if surplus <= 0:
            break
        version = owner.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Owner(ANCIENT_CHANGES, UPDATE, version)
        oldest, merged = left.pop(first[version]), left.pop(owner)
        left[bucket] = Managed(version, oldest.fields | merged.fields, merged.time)
        first[version] = bucket
        surplus -= 1
    return left
