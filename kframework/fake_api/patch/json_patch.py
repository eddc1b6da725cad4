"""JSON Patch (RFC 6902): a list of operations on a document, all of which succeed or none is done."""

from __future__ import annotations

import re
from copy import deepcopy

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError

MOST_OPERATIONS = 10_000
#: How much all `copy` operations of one patch may add, in bytes: a few of them could double a document each.
LARGEST_COPIES = 3 << 20

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPED = re.compile(r"~([01])")


def json_patch(document: dict[str, object], operations: object) -> object:
    """Return the document with the operations done, one after the other.

    ClusterError 400 if they are malformed, 413 if they are too many, 422 if one does not fit the document.
    """
    if isinstance(operations, list) and len(operations) > MOST_OPERATIONS:
        raise _too_large(f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}")
    try:
        todo = msgspec.convert(operations, list[_Add | _Remove | _Replace | _Move | _Copy | _Test])
    except msgspec.ValidationError as error:
        raise api_errors.bad_request(f"error decoding patch: {error}") from error
    patched = _Patched(deepcopy(document))
    for operation in todo:
        patched.do(operation)
    return patched.whole[0]


class _Operation(msgspec.Struct, frozen=True, tag_field="op", tag=lambda name: name.removeprefix("_").lower()):
    path: str


class _Add(_Operation, frozen=True):
    value: object


class _Remove(_Operation, frozen=True):
    pass


class _Replace(_Operation, frozen=True):
    value: object


class _Move(_Operation, frozen=True, rename={"origin": "from"}):
    origin: str


class _Copy(_Operation, frozen=True, rename={"origin": "from"}):
    origin: str


class _Test(_Operation, frozen=True):
    value: object


class _Patched:
    """A document between two operations."""

    def __init__(self, document: object) -> None:
        #: The document as the one element of a list, so that even the document as a whole has a parent.
        self.whole = [document]
        self._copied = 0

    def do(self, operation: _Add | _Remove | _Replace | _Move | _Copy | _Test) -> None:
        match operation:
            case _Add(path, value):
                self._add(path, deepcopy(value))
            case _Remove(path):
                self._remove(path)
            case _Replace(path, value):
                self._get(path)
                self._set(path, deepcopy(value))
            case _Move(path, origin) if path.startswith(f"{origin}/"):
                raise _not_fitting(f"{origin} cannot be moved into itself")
            case _Move(path, origin) if path == origin:
                self._get(path)
            case _Move(path, origin):
                self._add(path, self._remove(origin))
            case _Copy(path, origin):
                self._add(path, self._copy(self._get(origin)))
            case _Test(path, value) if not _same(self._get(path), value):
                raise _not_fitting(f"testing value {path} failed")

    def _add(self, path: str, value: object) -> None:
        parent, last = self._parent(path)
        if isinstance(parent, dict) or path == "":
            self._set(path, value)
        else:
            parent.insert(len(parent) if last == "-" else _index(path, last, len(parent) + 1), value)

    def _set(self, path: str, value: object) -> None:
        parent, last = self._parent(path)
        if isinstance(parent, dict):
            parent[last] = value
        else:
            parent[int(last)] = value

    def _remove(self, path: str) -> object:
        if path == "":
            raise _not_fitting("the document as a whole cannot be removed")
        parent, last = self._parent(path)
        self._get(path)
        return parent.pop(last) if isinstance(parent, dict) else parent.pop(int(last))

    def _copy(self, value: object) -> object:
        encoded = msgspec.json.encode(value)
        self._copied += len(encoded)
        if self._copied > LARGEST_COPIES:
            raise _too_large(f"the copies of a JSON patch may take {LARGEST_COPIES} bytes")
        return msgspec.json.decode(encoded)

    def _get(self, path: str) -> object:
        parent, last = self._parent(path)
        return _below(parent, last, path)

    def _parent(self, path: str) -> tuple[dict[str, object] | list[object], str]:
        """Find what holds the place of a path, and the last step there."""
        *steps, last = ["0", *_steps(path)]
        place: object = self.whole
        for step in steps:
            place = _below(place, step, path)
        if isinstance(place, dict | list):
            return place, last
        raise _not_fitting(f"{path} does not exist")


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise api_errors.bad_request(f"error decoding patch: the path {path!r:.200} does not start with a slash")
    return [_ESCAPED.sub(lambda escaped: "~/"[int(escaped[1])], step) for step in path.split("/")[1:]]


def _below(place: object, step: str, path: str) -> object:
    if isinstance(place, dict) and step in place:
        return place[step]
    if isinstance(place, list):
        return place[_index(path, step, len(place))]
    raise _not_fitting(f"{path} does not exist")


def _index(path: str, step: str, end: int) -> int:
    if _INDEX.fullmatch(step) is None or int(step) >= end:
        raise _not_fitting(f"{path} is no place in a list of {end}" if end else f"{path}: the list is empty")
    return int(step)


def _same(one: object, other: object) -> bool:
    """Return whether two values are the same in JSON, where true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[field]) for field, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _not_fitting(why: str) -> ClusterError:
    return ClusterError(f"the patch does not fit: {why}", status=422, reason="Invalid")


def _too_large(why: str) -> ClusterError:
    return ClusterError(why, status=413, reason="RequestEntityTooLarge")
