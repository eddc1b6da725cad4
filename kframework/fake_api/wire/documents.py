"""Objects as JSON documents, next to the structs that hold only what a scheduler reads.

A document follows its struct: changes by admission, kubelets, controllers and bindings are applied to it, and fields
that the struct does not have stay as their author wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache
from itertools import compress
from operator import attrgetter, is_not
from typing import cast

import msgspec
from msgspec import structs

from kframework.in_memory.kind_store import Draft
from kframework.objects.codec import encode
from kframework.objects.meta import ApiObject

#: A JSON object as plain data. It is shared: copy it to change it.
Data = dict[str, object]


class ApiDocument:
    """A stored object and its JSON; immutable, except for JSON that follows the clock."""

    __slots__ = ("_body", "subject")

    def __init__(self, subject: ApiObject, body: bytes) -> None:
        self.subject: ApiObject = subject
        self._body = body

    @classmethod
    def from_struct(cls, subject: ApiObject) -> ApiDocument:
        return cls(subject, encode(subject))

    @staticmethod
    def from_draft(draft: Draft, subject: ApiObject) -> ApiDocument:
        return ApiDocument(subject, msgspec.json.encode(update_document(draft.data, draft.subject, subject)))

    @property
    def body(self) -> bytes:
        return self._body

    @property
    def data(self) -> Data:
        return _decode(self.body)

    def decode_parts(self, names: Collection[str]) -> Data:
        """Decode only some top-level fields: a selector reads up to a hundred thousand documents."""
        raw = _parts.decode(self.body)
        return {name: msgspec.json.decode(raw[name]) for name in names if name in raw}

    @property
    def key(self) -> tuple[str, str]:
        metadata = self.subject.metadata
        return metadata.namespace, metadata.name

    def with_version(self, version: int) -> ApiDocument:
        """Return the document with another resource version, that of its deletion."""
        metadata = structs.replace(self.subject.metadata, resource_version=str(version))
        return ApiDocument.from_draft(Draft(self.subject, self.data), structs.replace(self.subject, metadata=metadata))


Completer = Callable[[ApiDocument], ApiDocument]


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


@lru_cache(maxsize=1024)  # read by the writer and by every watch with a field selector
def _decode(body: bytes) -> Data:
    return cast("Data", msgspec.json.decode(body))


def update_document(data: Data, before: msgspec.Struct, after: msgspec.Struct) -> Data:
    """Apply the differences between two structs of one type to the document of the first."""
    updated = dict(data)
    fields, values = _fields(type(after))
    old_values, new_values = values(before), values(after)
    # Most values are identical: skip them without executing Python code.
    others = map(is_not, new_values, old_values)
    for (name, default), old, new in compress(zip(fields, old_values, new_values, strict=True), others):
        if new == old:
            continue
        if new == default and not isinstance(new, msgspec.Struct):
            updated.pop(name, None)
        else:
            updated[name] = _updated_value(updated.get(name), old, new)
    return updated


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[list[tuple[str, object]], Callable[[object], tuple[object, ...]]]:
    fields = structs.fields(struct)
    names = [field.name for field in fields]
    values = attrgetter(*names) if len(names) > 1 else lambda subject: tuple(getattr(subject, name) for name in names)
    defaults = (
        each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory() for each in fields
    )
    return list(zip((field.encode_name for field in fields), defaults, strict=True)), values


_SCALARS = (str, bool, int, float)


def _updated_value(shown: object, old: object, new: object) -> object:
    """Return the plain data of a changed value; `shown` is that of the old one."""
    if isinstance(new, _SCALARS):
        return new
    if isinstance(new, msgspec.Struct) and type(old) is type(new) and isinstance(shown, dict):
        return update_document(shown, old, new)
    if isinstance(new, tuple) and isinstance(old, tuple) and isinstance(shown, list) and len(old) == len(shown):
        # Elements with the same name, or type, are the same element.
        positions = {_identity(element): index for index, element in enumerate(old)}
        elements: list[object] = []
        for element in new:
            position = positions.get(_identity(element))
            if position is None:
                elements.append(_to_plain(element))
            elif element == old[position]:
                elements.append(shown[position])
            else:
                elements.append(_updated_value(shown[position], old[position], element))
        return elements
    return _to_plain(new)


def _to_plain(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))


def _identity(element: object) -> object:
    identity = getattr(element, "type", None) or getattr(element, "name", None)
    return identity if identity is not None else repr(element)
