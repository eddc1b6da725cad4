"""Strategic merge patches: Kubernetes' own form, which knows what the elements of a list are called.

Beside values, a patch carries directives: `$patch: delete | replace` for a mapping or for an element of a list,
`$retainKeys` for the fields of a mapping that stay, `$setElementOrder/<list>` for the order of a list,
`$deleteFromPrimitiveList/<list>` for the strings that leave one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kframework.client import api_errors
from kframework.objects.openapi.definitions import OBJECT_META, Schema, definition_of, field_of, reference_to

_ORDER = "$setElementOrder/"
_REMOVAL = "$deleteFromPrimitiveList/"

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

    @property
    def is_replaced(self) -> bool:
        """Whether a patch replaces a mapping instead of merging into it."""
        return self.schema.patch_strategy == "replace"


def strategic_merge(document: _Map, patch: _Map) -> _Map:
    """Return the object with the patch merged into it; ClusterError 400 if its directives make no sense."""
    name = definition_of(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    return _merged_map(document, patch, _Place(_UNKNOWN_KIND if name is None else reference_to(name)))


def _merged_map(original: _Map, patch: _Map, place: _Place) -> _Map:
    if "$patch" in patch:
        return _directed(patch)
    merged = _retained(original, patch)
    orders, removals = _lists(patch, _ORDER), _lists(patch, _REMOVAL)
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


def _directed(patch: _Map) -> _Map:
    """Follow the directive for a mapping as a whole."""
    match patch["$patch"]:
        case "replace":
            return {field: _plain(value) for field, value in _without_directives(patch).items()}
        case "delete":
            return {}
        case other:
            raise api_errors.bad_request(f"unknown patch type: {other!r:.100}")


def _retained(original: _Map, patch: _Map) -> _Map:
    """Leave only those fields of a mapping that the patch says to retain, all of them if it does not say."""
    if "$retainKeys" not in patch:
        return dict(original)
    names = patch["$retainKeys"]
    if not isinstance(names, list) or any(field not in names for field in _without_directives(patch)):
        raise api_errors.bad_request("invalid patch format of retainKeys")
    return {field: value for field, value in original.items() if field in names}


def _lists(patch: _Map, directive: str) -> dict[str, _List]:
    """Collect what a directive that stands beside a list says, by the list's name."""
    return {field.removeprefix(directive): _list(patch[field]) for field in patch if field.startswith(directive)}


def _merged(original: object, patch: object, place: _Place, order: _List | None) -> object:
    key = place.merge_key
    if isinstance(original, dict) and isinstance(patch, dict) and not place.is_replaced:
        return _merged_map(original, patch, place)
    if isinstance(original, list) and isinstance(patch, list) and key is not None:
        return _merged_list(original, patch, place, key, order)
    return _plain(patch)


def _merged_list(original: _List, patch: _List, place: _Place, key: str, order: _List | None) -> _List:
    """Merge the elements of two lists by their names, which the key says; `order` is what the patch asks for."""
    additions = [element for element in patch if not _is_directive(element)]
    if order is None:
        order = additions
    elif not _in_order(_names(additions, key), _names(order, key)):
        raise api_errors.bad_request(f"The order in patch list doesn't match $setElementOrder list of {place.path}")
    directives = [element for element in patch if isinstance(element, dict) and "$patch" in element]
    deletions = [directive for directive in directives if _is_deletion(directive)]
    if len(deletions) < len(directives):
        return [_plain(element) for element in additions]
    gone = set(_names(deletions, key))
    merged = [element for element in original if _name(element, key) not in gone]
    position = _positions(_names(merged, key))
    for element in additions:
        name = _name(element, key)
        if name not in position:
            position[name] = len(merged)
            merged.append(_plain(element))
        elif key is not _SET:
            merged[position[name]] = _merged(merged[position[name]], element, place, None)
    return _arranged(merged, original, order, key)


def _is_deletion(directive: _Map) -> bool:
    """Return whether a directive deletes one element of a list; otherwise it replaces the list as a whole."""
    match directive["$patch"]:
        case "delete" | "replace" as wanted:
            return wanted == "delete"
        case other:
            raise api_errors.bad_request(f"unknown patch type in a list: {other!r:.100}")


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


def _in_order(names: Sequence[object], order: Sequence[object]) -> bool:
    """Return whether the names occur in the order, one after the other."""
    rest = iter(order)
    return all(name in rest for name in names) or not order


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
