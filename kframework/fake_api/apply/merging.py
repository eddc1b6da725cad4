"""Merging what is applied into an object, and taking fields out of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from kframework.fake_api.apply.field_paths import Path, field
from kframework.fake_api.apply.shapes import ABSENT, Elements, Shape


def merged(shape: Shape, live: object, applied: object) -> object:
    """Return a value with what is applied to it; neither is changed, and the result may share parts with both."""
    parts = shape.parts(live)
    if applied is ABSENT:
        return live
    if not parts or shape.parts(applied) is None:
        return applied
    if isinstance(live, dict) and isinstance(applied, dict):
        return live | {
            name: merged(shape.below(field(name)).shape, live.get(name, ABSENT), value)
            for name, value in applied.items()
        }
    if isinstance(shape, Elements) and isinstance(live, list) and isinstance(applied, list):
        return _merged_list(shape, live, applied)
    return applied


def _merged_list(shape: Elements, live: list[object], applied: list[object]) -> list[object]:
    before, new = shape.parts(live) or {}, {shape.name(item): item for item in applied}
    kept: dict[str, list[object]] = {}
    for item in live:
        kept.setdefault(shape.name(item), []).append(item)
    result: list[object] = []
    for name in _order(list(kept), list(new)):
        if name not in new:
            result += kept[name]
        elif name in before:
            result.append(merged(before[name].shape, before[name].value, new[name]))
        else:
            result.append(new[name])
    return result


def _order(live: Sequence[str], applied: Sequence[str]) -> list[str]:
    """Return the elements of both: the applied ones in their order, the others behind those they stood behind.

    It goes through both lists at once. A live element that is applied too, but not next, waits for its turn.
    """
    order: dict[str, None] = {}
    wanted, there = set(applied), set(live)
    shared = iter([name for name in applied if name in there])
    due = next(shared, None)
    at, turn = 0, 0
    while at < len(live) or turn < len(applied):
        if at < len(live):
            is_next = applied[turn : turn + 1] == [live[at]]
            if live[at] not in wanted:
                order[live[at]] = None
                at += 1
                continue
            if not is_next and turn < len(applied) and due not in (None, live[at]):
                at += 1
                continue
            if is_next or live[at] in order:
                at += 1
        if turn < len(applied):
            order[applied[turn]] = None
            if applied[turn] == due:
                due = next(shared, None)
            turn += 1
    return list(order)


def without(shape: Shape, value: object, gone: Iterable[Path]) -> object:
    """Return a value without these fields, each with all below it; what is emptied so stays, empty."""
    below: dict[str, set[Path]] = {}
    for path in gone:
        below.setdefault(path[0], set()).add(path[1:])
    if not below or shape.parts(value) is None:
        return value
    if isinstance(value, dict):
        kept = [(name, field(name), item) for name, item in value.items()]
        return {
            name: without(shape.below(element).shape, item, below.get(element, ()))
            for name, element, item in kept
            if () not in below.get(element, ())
        }
    elements = cast("Elements", shape)  # nothing else has parts in a list
    items = [(elements.name(item), item) for item in cast("list[object]", value)]
    return [
        without(elements.below(element).shape, item, below.get(element, ()))
        for element, item in items
        if () not in below.get(element, ())
    ]
