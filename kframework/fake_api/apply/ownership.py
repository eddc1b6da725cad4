"""Who owns which field after a write: the rules of server-side apply.

An update takes what it changes from those who had it. Who applies owns all that he applies, beside others, and what he
no longer applies goes if nobody else owns it. What he would change of others is a conflict, if he does not force it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from kframework.fake_api.apply.managed_fields import NO_FIELDS, Fields, Managed, Managers, Owner, Path, capped, field
from kframework.fake_api.apply.shapes import ABSENT, ONE_VALUE, Elements, Part, Shape
from kframework.fake_api.wire.documents import Data


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


def fields_of(shape: Shape, value: object) -> Fields:
    """Return the fields of a value: what is one value, keys of maps, elements of lists, and fields that are empty."""
    found: set[Path] = set()
    _collect(shape, value, (), found)
    return frozenset(found)


def _collect(shape: Shape, value: object, path: Path, found: set[Path]) -> None:
    parts = shape.parts(value)
    if parts is None:
        found.add(path)
        return
    for element, part in parts.items():
        below = (*path, element)
        _collect(part.shape, part.value, below, found)
        if not part.is_named or part.value == {}:
            found.add(below)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """What a change has done; a field is in one of the three, with all below it that came or went with it."""

    added: set[Path] = dataclasses.field(default_factory=set)
    removed: set[Path] = dataclasses.field(default_factory=set)
    modified: set[Path] = dataclasses.field(default_factory=set)

    @property
    def given(self) -> set[Path]:
        """The fields that have another value than before."""
        return self.added | self.modified


def compared(shape: Shape, old: object, new: object) -> Comparison:
    """Compare two states of a value."""
    found = Comparison()
    _compare(shape, old, new, (), found)
    return found


_NOTHING = Part(ONE_VALUE, ABSENT)


def _compare(shape: Shape, old: object, new: object, path: Path, found: Comparison) -> None:
    if old == new:
        return
    before, after = shape.parts(old), shape.parts(new)
    if before is not None and after is not None:
        for element in before | after:
            was, now = before.get(element, _NOTHING), after.get(element, _NOTHING)
            inner = now.shape if now.value is not ABSENT else was.shape
            first = shape.always(element) if was.value is ABSENT and old is not ABSENT else was.value
            _compare(inner, first, now.value, (*path, element), found)
    elif old is not ABSENT and new is not ABSENT:
        found.modified.add(path)
    if old is ABSENT:
        found.added.add(path)
    elif new is ABSENT:
        found.removed.add(path)


def with_named_fields(shape: Shape, fields: Fields) -> Fields:
    """Return a set with the fields of types that are not in it, but below which there is something of it."""
    found = set(fields)
    for path in fields:
        place = shape
        for depth, element in enumerate(path[:-1]):
            part = place.below(element)
            if part.is_named:
                found.add(path[: depth + 1])
            place = part.shape
    return frozenset(found)


#: What nobody owns, because the server sets it.
_OF_THE_SERVER = (
    *("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation"),
    *("managedFields", "resourceVersion"),
)
_UNOWNED: Fields = frozenset(
    [
        *((field(name),) for name in ("apiVersion", "kind", "metadata")),
        *((field("metadata"), field(name)) for name in _OF_THE_SERVER),
    ]
)


class Applied(NamedTuple):
    """What an object becomes by an apply: who owns it then, and what is changed that belongs to others."""

    data: Data
    managers: dict[Owner, Managed]
    conflicts: dict[Owner, Fields]


def updated(
    shape: Shape, old: Data, new: Data, managers: Managers, owner: Owner, *, version: str, now: str
) -> dict[Owner, Managed]:
    """Return who owns what after a write of any other kind; `version` is the apiVersion of both states."""
    change = compared(shape, old, new)
    left = _without_changed(managers, change)
    if given := change.given - _UNOWNED:
        before = left.get(owner)
        left[owner] = Managed(version, frozenset(given) | (before.fields if before else NO_FIELDS), now)
    return capped(left)


def applied(
    shape: Shape, live: Data, config: Data, managers: Managers, owner: Owner, *, version: str, now: str
) -> Applied:
    """Apply a configuration to an object; what is in conflict is taken from the others, which is to be allowed."""
    said = fields_of(shape, config)
    last = managers.get(owner)
    others = {each: managed for each, managed in managers.items() if each != owner}
    new = merged(shape, live, config)
    if last is not None:
        new = _pruned(shape, new, last.fields, said.union(*(managed.fields for managed in others.values())))
    assert isinstance(new, dict)
    change = compared(shape, live, new)
    conflicts = {each: managed.fields & change.given for each, managed in others.items()}
    left = _without_changed(others, change)
    if own := said - _UNOWNED:
        time = now if new != live else last.time if last is not None else ""
        left[owner] = Managed(version, own, time)
    return Applied(new, left, {each: fields for each, fields in conflicts.items() if fields})


def allowed_by_last_applied(shape: Shape, last_applied: Data, live: Data) -> Fields:
    """Return what an object still has from when it was applied by the client, which was the same person."""
    change = compared(shape, last_applied, live)
    return fields_of(shape, last_applied) - change.given - change.removed


def _without_changed(managers: Managers, change: Comparison) -> dict[Owner, Managed]:
    gone: set[Path] = change.given | change.removed
    left = {owner: managed._replace(fields=managed.fields - gone) for owner, managed in managers.items()}
    return {owner: managed for owner, managed in left.items() if managed.fields}


def _pruned(shape: Shape, data: object, last: Fields, owned: Fields) -> object:
    """Take away what was applied last time and is owned by nobody any more, be it with what is below it.

    First all goes that was applied, then all comes back that has an owner, and then what was never applied.
    """
    last, owned = with_named_fields(shape, last), with_named_fields(shape, owned)
    whole = with_named_fields(shape, fields_of(shape, data))
    pruned = without(shape, data, last)
    left = with_named_fields(shape, fields_of(shape, pruned))
    pruned = without(shape, data, whole - left - owned)
    left = with_named_fields(shape, fields_of(shape, pruned))
    return without(shape, data, (whole - left) & last)
