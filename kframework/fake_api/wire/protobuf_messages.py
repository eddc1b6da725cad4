"""The messages of Kubernetes' protobuf: which field has which number, as the tags in its Go types say.

They stand in a file beside this one, a line a message: number, name and type of each field, a string if no type stands
there. A star marks a field that is repeated, a question mark one that counts even where its value is zero or empty;
`map` is one from string to string, `map:T` one to T. The fields of a type behind `^` are those of the message itself.
Where several groups have a message of one name, it has its group before it, and its version too where those differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: Message -> its fields, as they are written; read when this module is imported, and so in no event loop.
_WRITTEN = dict(
    line.split(": ", 1) for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
)

#: Field number -> name and type.
Fields = dict[int, tuple[str, str]]


def message_of(api_version: str, kind: str) -> str | None:
    """Name the message of a kind; None if it has none here."""
    group, _, version = api_version.rpartition("/")
    if "." in group and not group.endswith(".k8s.io"):
        return None
    short = group.partition(".")[0] or "core"
    names = (f"{short}/{version}.{kind}", f"{short}.{kind}", kind)
    return next((name for name in names if name in _WRITTEN), None)


@cache
def fields_of(message: str) -> Fields:
    """Return the fields of a message."""
    if message.startswith("map"):
        return {1: ("key", "string?"), 2: ("value", f"{message.partition(':')[2] or 'string'}?")}
    return dict(_read(_WRITTEN[message]))


def _read(fields: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for field in fields.split(", "):
        number, name, kind = [*field.split(), "string"][:3]
        yield int(number), ("", name) if name.startswith("^") else (name, kind)
