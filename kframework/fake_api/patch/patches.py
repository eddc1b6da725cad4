"""Patches of objects in three forms: JSON patch, merge patch, strategic merge patch.

Objects and patches are plain data; neither is modified, and the result may share parts with both.
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
from kframework.objects.codec import describe_decode_error
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition_of, field_of, reference_to

_Map = dict[str, object]
_List = list[object]
_Name = str | int | float


#: The merge key of a list of distinct scalars.
_SET = ""
_UNKNOWN_KIND = Schema(properties={"metadata": reference_to(OBJECT_META)})


class _MergeField(NamedTuple):
    """A field with its schema and path; list elements have no index."""

    schema: Schema
    path: str = ""

    def child(self, field: str) -> _MergeField:
        return _MergeField(field_of(self.schema, field), f"{self.path}.{field}" if self.path else field)

    @property
    def merge_key(self) -> str | None:
        """The field that identifies list elements, _SET for a set of scalars; None if the list is replaced."""
        return self.schema.patch_merge_key if "merge" in self.schema.patch_strategy.split(",") else None


def strategic_merge(document: _Map, patch: _Map) -> _Map:
    """Return the object with the patch merged; ClusterError 400 for invalid directives."""
    name = definition_of(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    return _merge_map(document, patch, _MergeField(_UNKNOWN_KIND if name is None else reference_to(name)))


def _merge_map(original: _Map, patch: _Map, target: _MergeField) -> _Map:
    fields = _without_directives(patch)
    if "$patch" in patch:
        match patch["$patch"]:
            case "replace":
                return {field: _strip_directives(value) for field, value in fields.items()}
            case "delete":
                return {}
            case other:
                raise api_errors.bad_request(f"unknown patch type: {other!r:.100}")
    merged = dict(original)
    if "$retainKeys" in patch:
        names = patch["$retainKeys"]
        if not isinstance(names, list) or any(field not in names for field in fields):
            raise api_errors.bad_request("invalid patch format of retainKeys")
        merged = {field: value for field, value in original.items() if field in names}
    orders = _list_directives(patch, "$setElementOrder/")
    removals = _list_directives(patch, "$deleteFromPrimitiveList/")
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif field in merged and not field.startswith("$"):
            merged[field] = _merge_value(merged[field], value, target.child(field), orders.get(field))
        elif not field.startswith("$") and not _is_directive(value):
            merged[field] = _strip_directives(value)
    for field, order in orders.items():
        if field in merged and patch.get(field) is None:
            merged[field] = _merge_value(merged[field], [], target.child(field), order)
    for field, removed in removals.items():
        if field in merged:
            merged[field] = [element for element in _as_list(merged[field]) if element not in removed]
    return merged


def _list_directives(patch: _Map, directive: str) -> dict[str, _List]:
    """Return the values of a directive about lists, by the list's name."""
    return {field.removeprefix(directive): _as_list(patch[field]) for field in patch if field.startswith(directive)}


def _merge_value(original: object, patch: object, target: _MergeField, order: _List | None) -> object:
    key = target.merge_key
    if isinstance(original, dict) and isinstance(patch, dict) and target.schema.patch_strategy != "replace":
        return _merge_map(original, patch, target)
    if isinstance(original, list) and isinstance(patch, list) and key is not None:
        return _merge_list(original, patch, target, key, order)
    return _strip_directives(patch)


def _merge_list(original: _List, patch: _List, target: _MergeField, key: str, order: _List | None) -> _List:
    """Merge the elements of two lists by `key`; `order` is the patch's $setElementOrder."""
    additions = [element for element in patch if not _is_directive(element)]
    rest = iter(_names(order or [], key))
    if order and not all(name in rest for name in _names(additions, key)):
        raise api_errors.bad_request(f"The order in patch list doesn't match $setElementOrder list of {target.path}")
    directives = [element for element in patch if isinstance(element, dict) and "$patch" in element]
    for directive in directives:
        if directive["$patch"] not in ("delete", "replace"):
            raise api_errors.bad_request(f"unknown patch type in a list: {directive['$patch']!r:.100}")
    if any(directive["$patch"] == "replace" for directive in directives):
        return [_strip_directives(element) for element in additions]
    removed = set(_names(directives, key))
    merged = [element for element in original if _name(element, key) not in removed]
    position = _positions(_names(merged, key))
    for element in additions:
        name = _name(element, key)
        if name not in position:
            position[name] = len(merged)
            merged.append(_strip_directives(element))
        elif key is not _SET:
            merged[position[name]] = _merge_value(merged[position[name]], element, target, None)
    return _arrange(merged, original, additions if order is None else order, key)


def _arrange(merged: _List, original: _List, order: _List, key: str) -> _List:
    """Sort the named elements by `order`; the others keep their positions as far as possible."""
    wanted, before = _positions(_names(order, key)), _positions(_names(original, key))
    listed = sorted((each for each in merged if _name(each, key) in wanted), key=lambda each: wanted[_name(each, key)])
    others = [each for each in reversed(merged) if _name(each, key) not in wanted]
    arranged: _List = []
    for element in listed:
        position = before.get(_name(element, key), 0)
        while others and before[_name(others[-1], key)] < position:
            arranged.append(others.pop())
        arranged.append(element)
    return arranged + others[::-1]


def _positions(names: Sequence[_Name]) -> dict[_Name, int]:
    return {name: index for index, name in reversed(list(enumerate(names)))}


def _names(elements: Sequence[object], key: str) -> list[_Name]:
    return [_name(element, key) for element in elements]


def _name(element: object, key: str) -> _Name:
    name = element if key is _SET else element.get(key) if isinstance(element, dict) else None
    if isinstance(name, str | int | float):
        return name
    problem = f"does not contain declared merge key: {key}" if key else "is not a scalar"
    raise api_errors.bad_request(f"an element of a list {problem}: {element!r:.100}")


def _is_directive(value: object) -> bool:
    return isinstance(value, dict) and "$patch" in value


def _without_directives(patch: _Map) -> _Map:
    return {field: value for field, value in patch.items() if value is not None and not field.startswith("$")}


def _strip_directives(value: object) -> object:
    """Copy a new value without nulls and directives."""
    if isinstance(value, dict):
        fields = _without_directives(value)
        return {field: _strip_directives(each) for field, each in fields.items() if not _is_directive(each)}
    if isinstance(value, list):
        return [_strip_directives(element) for element in value if not _is_directive(element)]
    return value


def _as_list(value: object) -> _List:
    if not isinstance(value, list):
        raise api_errors.bad_request("a list directive of the patch is not about a list")
    return value


MAX_OPERATIONS = 10_000
#: Limit of the bytes that all `copy` operations of a patch may add: each could double the document.
MAX_COPIED_BYTES = 3 << 20

_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")
_ESCAPED = re.compile(r"~([01])")


def json_patch(document: dict[str, object], operations: object) -> object:
    """Return the document after the operations, in their order.

    ClusterError 400 if they are malformed, 413 if they are too many, 422 if one cannot be applied.
    """
    if isinstance(operations, list) and len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise _too_large_error(message)
    try:
        parsed = msgspec.convert(operations, list[_Add | _Remove | _Replace | _Move | _Copy | _Test])
    except msgspec.ValidationError as error:
        raise api_errors.bad_request(f"error decoding patch: {describe_decode_error(error)}") from error
    target = _PatchTarget(deepcopy(document))
    for operation in parsed:
        target.execute(operation)
    return target.whole[0]


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


class _PatchTarget:
    def __init__(self, document: object) -> None:
        #: The document as the only element of a list, so that it has a parent too.
        self.whole = [document]
        self._copied = 0

    def execute(self, operation: _Add | _Remove | _Replace | _Move | _Copy | _Test) -> None:
        match operation:
            case _Add(path, value):
                self._add(path, deepcopy(value))
            case _Remove(path):
                self._remove(path)
            case _Replace(path, value):
                self._get(path)
                self._set(path, deepcopy(value))
            case _Move(path, origin) if path.startswith(f"{origin}/"):
                raise _mismatch_error(f"{origin} cannot be moved into itself")
            case _Move(path, origin) if path == origin:
                self._get(path)
            case _Move(path, origin):
                self._add(path, self._remove(origin))
            case _Copy(path, origin):
                encoded = msgspec.json.encode(self._get(origin))
                self._copied += len(encoded)
                if self._copied > MAX_COPIED_BYTES:
                    raise _too_large_error(f"the copies of a JSON patch exceed {MAX_COPIED_BYTES} bytes")
                self._add(path, msgspec.json.decode(encoded))
            case _Test(path, value) if not _is_equal_json(self._get(path), value):
                raise _mismatch_error(f"testing value {path} failed")

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
            raise _mismatch_error("the document as a whole cannot be removed")
        parent, last = self._parent(path)
        self._get(path)
        return parent.pop(last) if isinstance(parent, dict) else parent.pop(int(last))

    def _get(self, path: str) -> object:
        parent, last = self._parent(path)
        return _child(parent, last, path)

    def _parent(self, path: str) -> tuple[dict[str, object] | list[object], str]:
        """Return the container of a path's value, and the last step of the path."""
        if path and not path.startswith("/"):
            raise api_errors.bad_request(f"error decoding patch: the path {path!r:.200} does not start with a slash")
        names = [_ESCAPED.sub(lambda escaped: "~/"[int(escaped[1])], step) for step in path.split("/")[1:]]
        *steps, last = ["0", *names]
        container: object = self.whole
        for step in steps:
            container = _child(container, step, path)
        if isinstance(container, dict | list):
            return container, last
        raise _mismatch_error(f"{path} does not exist")


def _child(container: object, step: str, path: str) -> object:
    if isinstance(container, dict) and step in container:
        return container[step]
    if isinstance(container, list):
        return container[_index(path, step, len(container))]
    raise _mismatch_error(f"{path} does not exist")


def _index(path: str, step: str, end: int) -> int:
    if _INDEX.fullmatch(step) is None or int(step) >= end:
        raise _mismatch_error(f"{path} is not an index of a list of {end}" if end else f"{path}: the list is empty")
    return int(step)


def _is_equal_json(left: object, right: object) -> bool:
    """Return whether two values are equal as JSON, where true is not a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_is_equal_json(value, right[field]) for field, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_equal_json, left, right))
    return left == right


def _mismatch_error(why: str) -> ClusterError:
    return ClusterError(f"cannot apply the patch: {why}", status=422, reason="Invalid")


def _too_large_error(why: str) -> ClusterError:
    return ClusterError(why, status=413, reason="RequestEntityTooLarge")


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

#: Kubernetes' own groups, whose types define how lists merge; those of custom resources do not.
_BUILT_IN_GROUPS = re.compile(
    "|apps|autoscaling|batch|policy|(admissionregistration|apiextensions|apiregistration|certificates|coordination"
    "|discovery|events|flowcontrol[.]apiserver|networking|node|rbac[.]authorization|resource|scheduling|storage)[.]k8s[.]io"
)


def apply_patch(document: dict[str, object], patch: bytes, content_type: str) -> dict[str, object]:
    """Return the object with the patch applied; `content_type` is the patch's form.

    ClusterError 400 for an invalid patch, 413 for one that is too large, 415 for a form that the kind does not support,
    422 for one that does not match the object.
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
        decoded = msgspec.json.decode(patch)
        if form != JSON_PATCH and not isinstance(decoded, dict):
            raise api_errors.bad_request("error decoding patch: must be an object")
        merge = {JSON_PATCH: json_patch, MERGE_PATCH: merge_patch}.get(form, strategic_merge)
        patched = merge(document, decoded)
    except ValueError as error:
        raise api_errors.bad_request(f"error decoding patch: {error}") from error
    except RecursionError as error:
        raise api_errors.bad_request("error decoding patch: nested too deeply") from error
    if not isinstance(patched, dict):
        raise ClusterError("the result of the patch is not an object", status=422, reason="Invalid")
    return patched
