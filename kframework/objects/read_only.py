"""Read-only objects, so that a plugin that modifies the objects it is passed fails at once.

Structs are frozen already, but the mappings in them are not. To make those read-only costs a walk through each object,
so it is done in tests and with `--dev`, not in production.
"""

from __future__ import annotations

import sys
from typing import Never, TypeVar, cast

import msgspec

from kframework.objects.meta import ApiObject

Object = TypeVar("Object", bound=ApiObject)


class ReadOnlyError(TypeError):
    """Raised on a write to an object of the cluster; names the object and the line of the write."""


class _ReadOnlyDict(dict[object, object]):
    """A dict that belongs to an object of the cluster; a copy of it is a plain one."""

    __slots__ = ("_owner",)

    def __init__(self, values: dict[object, object], owner: str) -> None:
        super().__init__(values)
        self._owner = owner

    def _refuse(self, *args: object, **named: object) -> Never:
        author = sys._getframe(1)
        location = f"{author.f_code.co_filename}:{author.f_lineno}"
        raise ReadOnlyError(f"{self._owner} is read-only, and written to in {location}; change a copy: dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[dict[object, object]], tuple[dict[object, object]]]:
        return dict, (dict(self),)


def read_only(obj: Object) -> Object:
    """Return the object with mappings that raise ReadOnlyError when they are written to."""
    metadata = obj.metadata
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return cast("Object", _read_only(obj, f"{type(obj).__name__.lower()} {name}: "))


def _read_only(value: object, owner: str) -> object:
    """Return the value itself unless there is a mapping in it; `owner` leads to it, as in `node a: metadata`."""
    if isinstance(value, msgspec.Struct):
        step = owner if owner.endswith(" ") else f"{owner}."
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        shown = {name: _read_only(field, step + name) for name, field in fields.items()}
        changed = {name: field for name, field in shown.items() if field is not fields[name]}
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        return _ReadOnlyDict({key: _read_only(item, f"{owner}[{key!r}]") for key, item in value.items()}, owner)
    if isinstance(value, tuple | list):
        items = tuple(_read_only(item, f"{owner}[{index}]") for index, item in enumerate(value))
        same = isinstance(value, tuple) and all(map(lambda new, old: new is old, items, value))
        return value if same else items
    return value
