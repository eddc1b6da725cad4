"""Patches: changes to an object as clients send them, in any of the three forms that Kubernetes knows.

All of it is plain data; neither the object nor the patch is changed, and the result may share parts with both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import msgspec

from kframework.client import api_errors
from kframework.errors import ClusterError
from kframework.in_memory.admission import merge_patch
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition_of, field_of, reference_to

_Map = dict[str, object]
_List = list[object]
#: What identifies an element of a list.
_Name = str | int | float


#: The merge key of a list whose elements are strings, each of which it holds once.
_SET = ""
#: All that is known of a kind that is not Kubernetes' own.
_UNKNOWN_KIND = Schema(properties={"metadata": reference_to(OBJECT_META)})


class _Place(NamedTuple):
    """Where in an object a value stands, and how it merges; lists have no indices."""

    schema: Schema
    path: str = ""

    def below(self, field: str) -> _Place:
        """Return the place of a field."""
        return _Place(field_of(self.schema, field), f"{self.path}.{field}" if self.path else field)

    @property
    def merge_key(self) -> str | None:
        """The field that identifies the elements of a list, _SET for a set of strings; None if a list is replaced."""
        return self.schema.patch_merge_key if "merge" in self.schema.patch_strategy.split(",") else None


def strategic_merge(document: _Map, patch: _Map) -> _Map:
    """Return the object with the patch merged into it; ClusterError 400 if its directives make no sense."""
    name = definition_of(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    return _merged_map(document, patch, _Place(_UNKNOWN_KIND if name is None else reference_to(name)))


def _merged_map(original: _Map, patch: _Map, place: _Place) -> _Map:
    said = _without_directives(patch)
    if "$patch" in patch:
        match patch["$patch"]:
            case "replace":
                return {field: _plain(value) for field, value in said.items()}
            case "delete":
                return {}
            case other:
                raise api_errors.bad_request(f"unknown patch type: {other!r:.100}")
    merged = dict(original)
    if "$retainKeys" in patch:
        names = patch["$retainKeys"]
        if not isinstance(names, list) or any(field not in names for field in said):
            raise api_errors.bad_request("invalid patch format of retainKeys")
        merged = {field: value for field, value in original.items() if field in names}
    orders, removals = _lists(patch, "$setElementOrder/"), _lists(patch, "$deleteFromPrimitiveList/")
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif field in merged and not field.startswith("$"):
            merged[field] = _merged(merged[field], value, place.below(field), orders.get(field))
        elif not field.startswith("$") and not _is_directive(value):
            merged[field] = _plain(value)
    for field, order in orders.items():
        if field in merged and patch.get(field) is None:
            merged[field] = _merged(merged[field], [], place.below(field), order)
    for field, gone in removals.items():
        if field in merged:
            merged[field] = [element for element in _list(merged[field]) if element not in gone]
    return merged


def _lists(patch: _Map, directive: str) -> dict[str, _List]:
    """Collect what a directive that stands beside a list says, by the list's name."""
    return {field.removeprefix(directive): _list(patch[field]) for field in patch if field.startswith(directive)}


def _merged(original: object, patch: object, place: _Place, order: _List | None) -> object:
    key = place.merge_key
    if isinstance(original, dict) and isinstance(patch, dict) and place.schema.patch_strategy != "replace":
        return _merged_map(original, patch, place)
    if isinstance(original, list) and isinstance(patch, list) and key is not None:
        return _merged_list(original, patch, place, key, order)
    return _plain(patch)


def _merged_list(original: _List, patch: _List, place: _Place, key: str, order: _List | None) -> _List:
    """Merge the elements of two lists by their names, which the key says; `order` is what the patch asks for."""
    additions = [element for element in patch if not _is_directive(element)]
    rest = iter(_names(order or [], key))
    if order and not all(name in rest for name in _names(additions, key)):
        raise api_errors.bad_request(f"The order in patch list doesn't match $setElementOrder list of {place.path}")
    directives = [element for element in patch if isinstance(element, dict) and "$patch" in element]
    for directive in directives:
        if directive["$patch"] not in ("delete", "replace"):
            raise api_errors.bad_request(f"unknown patch type in a list: {directive['$patch']!r:.100}")
    if any(directive["$patch"] == "replace" for directive in directives):
        return [_plain(element) for element in additions]
    gone = set(_names(directives, key))
    merged = [element for element in original if _name(element, key) not in gone]
    position = _positions(_names(merged, key))
    for element in additions:
        name = _name(element, key)
        if name not in position:
            position[name] = len(merged)
            merged.append(_plain(element))
        elif key is not _SET:
            merged[position[name]] = _merged(merged[position[name]], element, place, None)
    return _arranged(merged, original, additions if order is None else order, key)


def _arranged(merged: _List, original: _List, order: _List, key: str) -> _List:
    """Put the named elements in their order; the others stay where they stood, as far as that goes."""
    wanted, before = _positions(_names(order, key)), _positions(_names(original, key))
    named = sorted((each for each in merged if _name(each, key) in wanted), key=lambda each: wanted[_name(each, key)])
    others = [each for each in reversed(merged) if _name(each, key) not in wanted]
    arranged: _List = []
    for element in named:
        place = before.get(_name(element, key), 0)
        while others and before[_name(others[-1], key)] < place:
            arranged.append(others.pop())
        arranged.append(element)
    return arranged + others[::-1]


def _positions(names: Sequence[_Name]) -> dict[_Name, int]:
    """Number the names; the first of two that are the same counts."""
    return {name: index for index, name in reversed(list(enumerate(names)))}


def _names(elements: Sequence[object], key: str) -> list[_Name]:
    return [_name(element, key) for element in elements]


def _name(element: object, key: str) -> _Name:
    """Return what identifies an element of a list."""
    name = element if key is _SET else element.get(key) if isinstance(element, dict) else None
    if isinstance(name, str | int | float):
        return name
    lacking = f"does not contain declared merge key: {key}" if key else "is no plain value"
    raise api_errors.bad_request(f"an element of a list {lacking}: {element!r:.100}")


def _is_directive(value: object) -> bool:
    return isinstance(value, dict) and "$patch" in value


def _without_directives(patch: _Map) -> _Map:
    return {field: value for field, value in patch.items() if value is not None and not field.startswith("$")}


def _plain(value: object) -> object:
    """Copy what has no counterpart in the object: without nulls, without directives and what they are about."""
    if isinstance(value, dict):
        fields = _without_directives(value)
        return {field: _plain(each) for field, each in fields.items() if not _is_directive(each)}
    if isinstance(value, list):
        return [_plain(element) for element in value if not _is_directive(element)]
    return value


def _list(value: object) -> _List:
    if not isinstance(value, list):
        raise api_errors.bad_request("a directive of the patch is about a list, but finds none")
    return value


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
                encoded = msgspec.json.encode(self._get(origin))
                self._copied += len(encoded)
                if self._copied > LARGEST_COPIES:
                    raise _too_large(f"the copies of a JSON patch may take {LARGEST_COPIES} bytes")
                self._add(path, msgspec.json.decode(encoded))
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

    def _get(self, path: str) -> object:
        parent, last = self._parent(path)
        return _below(parent, last, path)

    def _parent(self, path: str) -> tuple[dict[str, object] | list[object], str]:
        """Find what holds the place of a path, and the last step there."""
        if path and not path.startswith("/"):
            raise api_errors.bad_request(f"error decoding patch: the path {path!r:.200} does not start with a slash")
        names = [_ESCAPED.sub(lambda escaped: "~/"[int(escaped[1])], step) for step in path.split("/")[1:]]
        *steps, last = ["0", *names]
        place: object = self.whole
        for step in steps:
            place = _below(place, step, path)
        if isinstance(place, dict | list):
            return place, last
        raise _not_fitting(f"{path} does not exist")


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


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
#: This one merges what its sender wants, with who owns what in mind: see `kframework.fake_api.apply`.
APPLY_PATCH = "application/apply-patch+yaml"

#: Groups of Kubernetes itself. Their types say how lists merge; those of custom resources do not.
_BUILT_IN_GROUPS = re.compile(
    "|apps|autoscaling|batch|policy|(admissionregistration|apiextensions|apiregistration|certificates|coordination"
    "|discovery|events|flowcontrol[.]apiserver|networking|node|rbac[.]authorization|resource|scheduling|storage)[.]k8s[.]io"
)


def apply_patch(document: dict[str, object], patch: bytes, content_type: str) -> dict[str, object]:
    """Return the object with the patch applied; `content_type` says which form it has.

    ClusterError 400 for a patch that cannot be read, 413 for one that does too much, 415 for a form that the object's
    kind does not take, 422 for one that does not fit the object.
    """
    form = content_type.partition(";")[0].strip().lower()
    group, slash, _ = str(document.get("apiVersion", "")).partition("/")
    forms = [JSON_PATCH, MERGE_PATCH]
    if not slash or _BUILT_IN_GROUPS.fullmatch(group) is not None:
        forms.append(STRATEGIC_MERGE_PATCH)
    if form not in forms:
        accepted = ", ".join([*forms, APPLY_PATCH])
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise ClusterError(message, status=415, reason="UnsupportedMediaType")
    try:
        found = msgspec.json.decode(patch)
        if form != JSON_PATCH and not isinstance(found, dict):
            raise api_errors.bad_request("error decoding patch: it must be an object")
        merge = {JSON_PATCH: json_patch, MERGE_PATCH: merge_patch}.get(form, strategic_merge)
        patched = merge(document, found)
    except ValueError as error:
        raise api_errors.bad_request(f"error decoding patch: {error}") from error
    except RecursionError as error:
        raise api_errors.bad_request("error decoding patch: it is nested too deeply") from error
    if not isinstance(patched, dict):
        raise ClusterError("the patch leaves no object", status=422, reason="Invalid")
    return patched
