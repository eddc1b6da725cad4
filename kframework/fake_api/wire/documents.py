"""Objects as the API shows them: whole JSON documents, beside the structs that hold only what a scheduler reads.

A document follows its struct: what admission, a kubelet, a controller or a binding changes there is changed here too,
and what the struct knows nothing of stays as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache
from itertools import compress
from operator import attrgetter, is_not
from typing import NamedTuple, cast

import msgspec
from msgspec import structs

from kframework.objects.codec import encode
from kframework.objects.meta import ApiObject

#: A JSON object as plain data. It is shared: whoever wants it changed makes another.
Data = dict[str, object]


class Document:
    """An object as it is stored, and its JSON in the API; neither changes, but for JSON that goes by the clock."""

    __slots__ = ("_body", "subject")

    def __init__(self, subject: ApiObject, body: bytes) -> None:
        self.subject: ApiObject = subject
        self._body = body

    @classmethod
    def of(cls, subject: ApiObject) -> Document:
        """Show an object of which nothing is known but its struct."""
        return cls(subject, encode(subject))

    @property
    def body(self) -> bytes:
        """The JSON."""
        return self._body

    @property
    def data(self) -> Data:
        """The JSON as plain data."""
        return _decoded(self.body)

    def parts(self, names: Collection[str]) -> Data:
        """Decode only some of what stands at the top: a selector goes through a hundred thousand documents."""
        found = _parts.decode(self.body)
        return {name: msgspec.json.decode(found[name]) for name in names if name in found}

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        metadata = self.subject.metadata
        return metadata.namespace, metadata.name

    def at(self, version: int) -> Document:
        """Show the object under another resource version: the one in which it goes."""
        metadata = structs.replace(self.subject.metadata, resource_version=str(version))
        return Draft(self.subject, self.data).then(structs.replace(self.subject, metadata=metadata))


#: Adds to a document, whenever it has changed, what follows from the rest.
Complete = Callable[[Document], Document]


class Draft(NamedTuple):
    """An object, and what shows it, before it is stored."""

    subject: ApiObject
    data: Data

    def then(self, subject: ApiObject) -> Document:
        """Show the object as it has become."""
        return Document(subject, msgspec.json.encode(followed(self.data, self.subject, subject)))


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw])


@lru_cache(maxsize=1024)  # a change is looked at by its writer and by every watch with a field selector
def _decoded(body: bytes) -> Data:
    return cast("Data", msgspec.json.decode(body))


def followed(data: Data, before: msgspec.Struct, after: msgspec.Struct) -> Data:
    """Return the document that showed `before` with all that differs in `after`; both are of one type."""
    shown = dict(data)
    fields, values = _fields(type(after))
    old_values, new_values = values(before), values(after)
    # Most values are the very same: those are passed over without a step of Python's.
    others = map(is_not, new_values, old_values)
    for (name, default), old, new in compress(zip(fields, old_values, new_values, strict=True), others):
        if new == old:
            continue
        if new == default and not isinstance(new, msgspec.Struct):
            shown.pop(name, None)
        else:
            shown[name] = _value(shown.get(name), old, new)
    return shown


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[list[tuple[str, object]], Callable[[object], tuple[object, ...]]]:
    """List a struct's fields, each with its name in the API and the value that is left out there; and a getter."""
    fields = structs.fields(struct)
    names = [field.name for field in fields]
    values = attrgetter(*names) if len(names) > 1 else lambda subject: tuple(getattr(subject, name) for name in names)
    defaults = (
        each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory() for each in fields
    )
    return list(zip((field.encode_name for field in fields), defaults, strict=True)), values


_SCALARS = (str, bool, int, float)


def _value(shown: object, old: object, new: object) -> object:
    """Return what shows a value that was changed; `shown` is what showed the old one."""
    if isinstance(new, _SCALARS):
        return new
    if isinstance(new, msgspec.Struct) and type(old) is type(new) and isinstance(shown, dict):
        return followed(shown, old, new)
    if isinstance(new, tuple) and isinstance(old, tuple) and isinstance(shown, list) and len(old) == len(shown):
        # An element that has kept its name, or its type, is the same one.
        places = {_identity(element): place for place, element in enumerate(old)}
        elements: list[object] = []
        for element in new:
            place = places.get(_identity(element))
            if place is None:
                elements.append(_plain(element))
            elif element == old[place]:
                elements.append(shown[place])
            else:
                elements.append(_value(shown[place], old[place], element))
        return elements
    return _plain(new)


def _plain(value: object) -> object:
    """Return a value as plain data, with lists where structs have tuples."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _identity(element: object) -> object:
    """Return what makes an element of a list the same one after a change."""
    named = getattr(element, "type", None) or getattr(element, "name", None)
    return named if named is not None else repr(element)
