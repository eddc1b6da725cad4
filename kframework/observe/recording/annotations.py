"""The annotations that a recording keeps, and the error in a replay that needs another.

Annotations contain anything: manifests, tokens, outputs of other tools. Of most a recording keeps a fingerprint instead
of the value, so that a change is still a change. To read such a value in a replay is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kframework.errors import KFrameworkError
from kframework.objects import ApiObject

if TYPE_CHECKING:
    from _collections_abc import dict_items, dict_values

T = TypeVar("T")
Object = TypeVar("Object", bound=ApiObject)

#: The annotations kept by default: those that our own plugins and tables read. `*` matches any suffix.
KEPT_ANNOTATIONS = (
    "kframework.dev/*",
    "pv.kubernetes.io/*",
    "resource.kubernetes.io/extended-resource-claim",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "volume.beta.kubernetes.io/storage-class",
    "volume.kubernetes.io/selected-node",
)

_PREFIX = "kframework.dev/withheld:"
_WITHHELD = re.compile(f"{_PREFIX}[0-9a-f]{{24}}")


class AnnotationNotRecorded(KFrameworkError):
    """Raised in a replay on reading an annotation whose value is not in the recording."""

    def __init__(self, key: str, owner: str) -> None:
        super().__init__(key, owner)
        self.key = key
        self.owner = owner

    def __str__(self) -> str:
        remedy = f"record with --record-annotations {self.key!r}"
        return f"the recording does not hold the annotation {self.key!r} of {self.owner}: {remedy}"


def keep_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    any_of = re.compile("|".join(re.escape(pattern).replace(r"\*", ".*") for pattern in patterns) or "(?!)", re.DOTALL)

    @lru_cache(maxsize=4096)
    def is_kept(key: str) -> bool:
        return any_of.fullmatch(key) is not None

    return is_kept


def without_values(obj: Object, is_kept: Callable[[str], bool], fingerprint: Callable[[str], str]) -> Object:
    annotations = obj.metadata.annotations
    if all(map(is_kept, annotations)):
        return obj
    replaced = {key: value if is_kept(key) else _PREFIX + fingerprint(value) for key, value in annotations.items()}
    return _with_annotations(obj, replaced)


def guard_annotations(obj: Object) -> Object:
    """Return an object of a recording that raises AnnotationNotRecorded on reading an annotation that was not kept."""
    annotations = obj.metadata.annotations
    if not any(map(_WITHHELD.fullmatch, annotations.values())):
        return obj
    name = "/".join(filter(None, (obj.metadata.namespace, obj.metadata.name)))
    return _with_annotations(obj, _GuardedAnnotations(annotations, f"{type(obj).__name__.lower()} {name}"))


def _with_annotations(obj: Object, annotations: dict[str, str]) -> Object:
    metadata = msgspec.structs.replace(obj.metadata, annotations=annotations)
    return msgspec.structs.replace(obj, metadata=metadata)


class _GuardedAnnotations(dict[str, str]):
    """Annotations, some without a value: those may be looked for and compared, but not read."""

    __slots__ = ("_owner",)

    def __init__(self, annotations: dict[str, str], owner: str) -> None:
        super().__init__(annotations)
        self._owner = owner

    def _read(self, key: str) -> str:
        value = super().__getitem__(key)
        if _WITHHELD.fullmatch(value):
            raise AnnotationNotRecorded(key, self._owner)
        return value

    __getitem__ = _read

    def get(self, key: str, default: T = None) -> str | T:  # type: ignore[assignment]  # as dict has it
        return self._read(key) if key in self else default

    # Copies are made by reading: with an __iter__ of its own a mapping is not copied behind its back.
    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))

    def values(self) -> dict_values[str, str]:
        return {key: self._read(key) for key in self}.values()

    def items(self) -> dict_items[str, str]:
        return {key: self._read(key) for key in self}.items()

    def copy(self) -> dict[str, str]:
        return dict(self.items())

    def __or__(self, other: dict[str, str]) -> dict[str, str]:  # type: ignore[override]  # only texts are in it
        return self.copy() | other

    def __ror__(self, other: dict[str, str]) -> dict[str, str]:  # type: ignore[override]  # only texts are in it
        return other | self.copy()
