"""Server-side apply: keeps the managed fields of what one call writes, by who owns which field after it.

An update takes what it changes from those who had it. Who applies owns all that he applies, beside others, and what he
no longer applies goes if nobody else owns it. What he would change of others is a conflict, if he does not force it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, cast

import msgspec

from kframework.client import api_errors
from kframework.client.request_attributes import is_flag_set
from kframework.errors import ClusterError
from kframework.fake_api.apply.managed_fields import (
    APPLY,
    NO_FIELDS,
    UPDATE,
    Fields,
    Managed,
    Managers,
    Owner,
    Path,
    are_reset,
    capped,
    field,
    in_order,
    in_words,
    managers_of,
    with_managers,
)
from kframework.fake_api.apply.shapes import ABSENT, ONE_VALUE, Elements, Part, Shape, problems, shape_of
from kframework.fake_api.calls import Call
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, name
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.generations import is_custom
from kframework.objects import CSINode, Event, Lease, Node, Pod, ResourceClaim, ResourceSlice


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
    for each in _order(list(kept), list(new)):
        if each not in new:
            result += kept[each]
        elif each in before:
            result.append(merged(before[each].shape, before[each].value, new[each]))
        else:
            result.append(new[each])
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


#: Who manages what stood in an object of which nobody knew who manages it, when somebody applied it.
BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: What programs write by the thousand. Of these it is taken down who manages them if their writer gives his name, or
#: from when somebody applies them: with it a pod would be twice as long, and take twice the time.
_NUMEROUS = frozenset({CSINode, Event, Lease, Node, Pod, ResourceClaim, ResourceSlice})


class FieldManager:
    """The writer of a call, as `managedFields` name him; ClusterError 422 for a name that cannot be one."""

    def __init__(self, call: Call, cluster: MemoryCluster) -> None:
        self._call = call
        self._resource = call.resource
        self._cluster = cluster
        self._name = call.field_manager

    def created(self, said: Data) -> Data:
        """Return a new object with its managed fields, as far as they are kept."""
        if self._resource.kind.struct in _NUMEROUS and "fieldManager" not in self._call.query:
            return with_managers(said, {}) if "managedFields" in mapping(said, "metadata") else said
        managers = {} if are_reset(said) else _managers(said)
        return with_managers(said, self._updated({}, self._part(said), managers))

    def updated(self, live: Data, new: Data) -> Data:
        """Return what an object becomes with its managed fields; the client may have set them, or forgotten them."""
        known = _managers(live)
        if not self._call.path.subresource:
            known = {} if are_reset(new) else _managers(new) or known
        if not known and "managedFields" not in mapping(new, "metadata"):
            return new
        return with_managers(new, self._updated(live, new, known) if known else {})

    def applied(self, live: Data, config: Data) -> Data:
        """Return an object, or {}, with a configuration applied; ClusterError 400, 409 for conflicts, or 500."""
        said = str(config.get("apiVersion", ""))
        if said != self._version:
            raise api_errors.bad_request(
                "Incorrect version specified in apply patch."
                f" Specified patch version: {said:.100}, expected: {self._version}"
            )
        if "managedFields" in mapping(config, "metadata"):
            raise api_errors.bad_request("metadata.managedFields must be nil")
        if wrong := list(problems(self._shape, config)):
            namespace, own = self._call.path.namespace, name(config)
            where = f"{namespace}/{own}; {self._version}, Kind={self._resource.kind.name}"
            told = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
            raise ClusterError(f"failed to create typed patch object ({where}): {told}", status=500)
        config = self._part(config)
        managers = _managers(live) or self._updated({}, self._part(live), {}, BEFORE_FIRST_APPLY)
        owner, now = Owner(self._name, APPLY, "", self._call.path.subresource), self._cluster.timestamp()
        result = applied(self._shape, live, config, managers, owner, version=self._version, now=now)
        allowed = NO_FIELDS
        if self._name == KUBECTL and (before := last_applied(live)):
            allowed = allowed_by_last_applied(self._shape, before, live)
        conflicts = {owner: in_order(fields - allowed) for owner, fields in sorted(result.conflicts.items())}
        if any(conflicts.values()) and not is_flag_set(self._call.query, "force"):
            raise conflict(conflicts)
        data = with_last_applied(result.data, config) if self._name == KUBECTL else result.data
        return with_managers(data, result.managers)

    @cached_property
    def _shape(self) -> Shape:
        return shape_of(self._resource)

    @property
    def _version(self) -> str:
        return self._resource.kind.api_version

    def _part(self, data: Data) -> Data:
        """Return the part of an object that the path is about: the status, or all but that."""
        if self._call.path.subresource in ("status", "approval"):
            names = ["apiVersion", "kind", "status", *([] if is_custom(self._resource.kind) else ["metadata"])]
            return {field: data[field] for field in names if field in data}
        has_status = "status" in self._resource.subresources
        return {field: said for field, said in data.items() if field != "status" or not has_status}

    def _updated(
        self, old: Data, new: Data, managers: dict[Owner, Managed], manager: str | None = None
    ) -> dict[Owner, Managed]:
        owner = Owner(manager or self._name, UPDATE, self._version, self._call.path.subresource)
        now = self._cluster.timestamp()
        return updated(self._shape, old, new, managers, owner, version=self._version, now=now)


def _managers(data: Data) -> dict[Owner, Managed]:
    """Read managed fields; such as cannot be read are none."""
    try:
        return managers_of(data)
    except ValueError:
        return {}


def conflict(fields: Mapping[Owner, Sequence[Path]]) -> ClusterError:
    """Say which fields of whom it would change."""
    causes = tuple(
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": in_words(path)}
        for owner, paths in fields.items()
        for path in paths
    )
    found = {owner: [in_words(path) for path in paths] for owner, paths in fields.items() if paths}
    if len(causes) == 1:
        ((owner, (path,)),) = found.items()
        message = f"Apply failed with 1 conflict: conflict with {owner}: {path}"
    else:
        lines: list[str] = []
        for owner, paths in found.items():
            lines += [f"conflicts with {owner}:", *(f"- {path}" for path in paths)]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ClusterError(message, status=409, reason="Conflict", causes=causes)


KUBECTL = "kubectl"

_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied(data: Data) -> Data | None:
    """Return what was last applied to an object by the client; None if nothing was, or nobody can read it."""
    text = mapping(data, "metadata.annotations").get(_ANNOTATION)
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def with_last_applied(data: Data, config: Data) -> Data:
    """Bring the annotation up to what the server has applied; an object without one gets none."""
    if last_applied(data) is None:
        return data
    said = {name: value for name, value in mapping(config, "metadata.annotations").items() if name != _ANNOTATION}
    text = msgspec.json.encode(_annotated(config, said), order="sorted").decode() + "\n"
    return _annotated(data, mapping(data, "metadata.annotations") | {_ANNOTATION: text})


def _annotated(data: Data, annotations: Data) -> Data:
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name != "annotations"}
    return {**data, "metadata": metadata | ({"annotations": annotations} if annotations else {})}
