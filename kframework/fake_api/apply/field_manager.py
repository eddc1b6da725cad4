"""Server-side apply: compute an object and its managed fields after a write.

An update takes ownership of the fields that it changes. An apply shares ownership of all its fields; those that it no
longer contains are removed unless they have another owner. Changing another owner's field is a conflict unless forced.
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
    ManagedFields,
    Managers,
    Owner,
    Path,
    cap_updaters,
    decode_managers,
    field_element,
    format_field_path,
    is_reset,
    sort_paths,
    with_managers,
)
from kframework.fake_api.apply.shapes import ABSENT, ATOMIC, ListShape, MergeShape, ValuePart, problems, resource_shape
from kframework.fake_api.calls import ApiCall
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.generations import is_custom
from kframework.objects import CSINode, Event, Lease, Node, Pod, ResourceClaim, ResourceSlice
from kframework.objects.plain_data import mapping, name


def merge_value(shape: MergeShape, live: object, applied: object) -> object:
    """Merge an applied value into a live one; neither is modified, and the result may share parts with both."""
    parts = shape.parts(live)
    if applied is ABSENT:
        return live
    if not parts or shape.parts(applied) is None:
        return applied
    if isinstance(live, dict) and isinstance(applied, dict):
        return live | {
            name: merge_value(shape.child(field_element(name)).shape, live.get(name, ABSENT), value)
            for name, value in applied.items()
        }
    if isinstance(shape, ListShape) and isinstance(live, list) and isinstance(applied, list):
        return _merge_list(shape, live, applied)
    return applied


def _merge_list(shape: ListShape, live: list[object], applied: list[object]) -> list[object]:
    before, new = shape.parts(live) or {}, {shape.name(item): item for item in applied}
    kept: dict[str, list[object]] = {}
    for item in live:
        kept.setdefault(shape.name(item), []).append(item)
    result: list[object] = []
    for each in _merge_order(list(kept), list(new)):
        if each not in new:
            result += kept[each]
        elif each in before:
            result.append(merge_value(before[each].shape, before[each].value, new[each]))
        else:
            result.append(new[each])
    return result


def _merge_order(live: Sequence[str], applied: Sequence[str]) -> list[str]:
    """Merge two lists of names: applied ones in their order, each other one after its live predecessor.

    Both lists are traversed together; a live name that is applied later waits for its position.
    """
    order: dict[str, None] = {}
    applied_names, live_names = set(applied), set(live)
    shared = iter([name for name in applied if name in live_names])
    next_shared = next(shared, None)
    live_index, applied_index = 0, 0
    while live_index < len(live) or applied_index < len(applied):
        if live_index < len(live):
            is_next = applied[applied_index : applied_index + 1] == [live[live_index]]
            if live[live_index] not in applied_names:
                order[live[live_index]] = None
                live_index += 1
                continue
            if not is_next and applied_index < len(applied) and next_shared not in (None, live[live_index]):
                live_index += 1
                continue
            if is_next or live[live_index] in order:
                live_index += 1
        if applied_index < len(applied):
            order[applied[applied_index]] = None
            if applied[applied_index] == next_shared:
                next_shared = next(shared, None)
            applied_index += 1
    return list(order)


def remove_fields(shape: MergeShape, value: object, removed: Iterable[Path]) -> object:
    """Remove fields with everything below them; containers that become empty stay."""
    below: dict[str, set[Path]] = {}
    for path in removed:
        below.setdefault(path[0], set()).add(path[1:])
    if not below or shape.parts(value) is None:
        return value
    if isinstance(value, dict):
        kept = [(name, field_element(name), item) for name, item in value.items()]
        return {
            name: remove_fields(shape.child(element).shape, item, below.get(element, ()))
            for name, element, item in kept
            if () not in below.get(element, ())
        }
    elements = cast("ListShape", shape)  # no other shape has parts in a list
    items = [(elements.name(item), item) for item in cast("list[object]", value)]
    return [
        remove_fields(elements.child(element).shape, item, below.get(element, ()))
        for element, item in items
        if () not in below.get(element, ())
    ]


def collect_fields(shape: MergeShape, value: object) -> Fields:
    """Return the fields of a value: atomic values, map keys, list elements, and empty containers."""
    fields: set[Path] = set()
    _collect(shape, value, (), fields)
    return frozenset(fields)


def _collect(shape: MergeShape, value: object, path: Path, fields: set[Path]) -> None:
    parts = shape.parts(value)
    if parts is None:
        fields.add(path)
        return
    for element, part in parts.items():
        below = (*path, element)
        _collect(part.shape, part.value, below, fields)
        if not part.is_named or part.value == {}:
            fields.add(below)


@dataclasses.dataclass(frozen=True, slots=True)
class FieldChanges:
    """The differences of two values; each field is in one set, together with what was added or removed below it."""

    added: set[Path] = dataclasses.field(default_factory=set)
    removed: set[Path] = dataclasses.field(default_factory=set)
    modified: set[Path] = dataclasses.field(default_factory=set)

    @property
    def changed(self) -> set[Path]:
        return self.added | self.modified


def compare_values(shape: MergeShape, old: object, new: object) -> FieldChanges:
    changes = FieldChanges()
    _compare_parts(shape, old, new, (), changes)
    return changes


_NOTHING = ValuePart(ATOMIC, ABSENT)


def _compare_parts(shape: MergeShape, old: object, new: object, path: Path, changes: FieldChanges) -> None:
    if old == new:
        return
    before, after = shape.parts(old), shape.parts(new)
    if before is not None and after is not None:
        for element in before | after:
            was, now = before.get(element, _NOTHING), after.get(element, _NOTHING)
            inner = now.shape if now.value is not ABSENT else was.shape
            first = shape.implied_value(element) if was.value is ABSENT and old is not ABSENT else was.value
            _compare_parts(inner, first, now.value, (*path, element), changes)
    elif old is not ABSENT and new is not ABSENT:
        changes.modified.add(path)
    if old is ABSENT:
        changes.added.add(path)
    elif new is ABSENT:
        changes.removed.add(path)


def with_named_fields(shape: MergeShape, fields: Fields) -> Fields:
    """Add the struct fields that contain fields of the set."""
    named = set(fields)
    for path in fields:
        current = shape
        for depth, element in enumerate(path[:-1]):
            part = current.child(element)
            if part.is_named:
                named.add(path[: depth + 1])
            current = part.shape
    return frozenset(named)


#: Metadata that the server sets, and no manager owns.
_SERVER_FIELDS = (
    *("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation"),
    *("managedFields", "resourceVersion"),
)
_UNOWNED: Fields = frozenset(
    [
        *((field_element(name),) for name in ("apiVersion", "kind", "metadata")),
        *((field_element("metadata"), field_element(name)) for name in _SERVER_FIELDS),
    ]
)


class ApplyResult(NamedTuple):
    """The result of an apply: the object, its managers, and the changed fields that others own."""

    data: Data
    managers: dict[Owner, ManagedFields]
    conflicts: dict[Owner, Fields]


def managers_after_update(
    shape: MergeShape, old: Data, new: Data, managers: Managers, owner: Owner, *, version: str, now: str
) -> dict[Owner, ManagedFields]:
    """Return the managers after a write other than an apply; `version` is the apiVersion of both objects."""
    change = compare_values(shape, old, new)
    remaining = _remove_changed(managers, change)
    if changed := change.changed - _UNOWNED:
        before = remaining.get(owner)
        remaining[owner] = ManagedFields(version, frozenset(changed) | (before.fields if before else NO_FIELDS), now)
    return cap_updaters(remaining)


def apply_configuration(
    shape: MergeShape, live: Data, config: Data, managers: Managers, owner: Owner, *, version: str, now: str
) -> ApplyResult:
    """Apply a configuration; conflicting fields are taken over, the caller checks whether that is allowed."""
    fields = collect_fields(shape, config)
    last = managers.get(owner)
    others = {each: managed for each, managed in managers.items() if each != owner}
    new = merge_value(shape, live, config)
    if last is not None:
        new = _prune(shape, new, last.fields, fields.union(*(managed.fields for managed in others.values())))
    assert isinstance(new, dict)
    change = compare_values(shape, live, new)
    conflicts = {each: managed.fields & change.changed for each, managed in others.items()}
    remaining = _remove_changed(others, change)
    if own := fields - _UNOWNED:
        time = now if new != live else last.time if last is not None else ""
        remaining[owner] = ManagedFields(version, own, time)
    return ApplyResult(new, remaining, {each: fields for each, fields in conflicts.items() if fields})


def unchanged_since_last_applied(shape: MergeShape, last_applied: Data, live: Data) -> Fields:
    """Return the fields unchanged since the client applied them client-side: they are no conflict."""
    change = compare_values(shape, last_applied, live)
    return collect_fields(shape, last_applied) - change.changed - change.removed


def _remove_changed(managers: Managers, change: FieldChanges) -> dict[Owner, ManagedFields]:
    removed: set[Path] = change.changed | change.removed
    remaining = {owner: managed._replace(fields=managed.fields - removed) for owner, managed in managers.items()}
    return {owner: managed for owner, managed in remaining.items() if managed.fields}


def _prune(shape: MergeShape, data: object, last: Fields, owned: Fields) -> object:
    """Remove what was applied last time and no longer has an owner, with everything below it.

    First all applied fields are removed, then owned ones restored, then those that were never applied.
    """
    last, owned = with_named_fields(shape, last), with_named_fields(shape, owned)
    whole = with_named_fields(shape, collect_fields(shape, data))
    pruned = remove_fields(shape, data, last)
    remaining = with_named_fields(shape, collect_fields(shape, pruned))
    pruned = remove_fields(shape, data, whole - remaining - owned)
    remaining = with_named_fields(shape, collect_fields(shape, pruned))
    return remove_fields(shape, data, (whole - remaining) & last)


#: The manager of fields that existed, without managed fields, before the first apply.
BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: Kinds that programs write by the thousand. They get managed fields only if their writer names a manager, or from the
#: first apply: a pod would be twice as long and take twice the time.
_LAZILY_MANAGED = frozenset({CSINode, Event, Lease, Node, Pod, ResourceClaim, ResourceSlice})


class FieldManager:
    """Maintains `managedFields` for the writer of a call; ClusterError 422 for an invalid name."""

    def __init__(self, call: ApiCall, cluster: MemoryCluster) -> None:
        self._call = call
        self._resource = call.resource
        self._cluster = cluster
        self._name = call.field_manager

    def create(self, data: Data) -> Data:
        if self._resource.kind.struct in _LAZILY_MANAGED and "fieldManager" not in self._call.query:
            return with_managers(data, {}) if "managedFields" in mapping(data, "metadata") else data
        managers = {} if is_reset(data) else _managers(data)
        return with_managers(data, self._managers_after_update({}, self._part(data), managers))

    def update(self, live: Data, new: Data) -> Data:
        """Return an updated object with managed fields; the client may have set or omitted them."""
        known = _managers(live)
        if not self._call.path.subresource:
            known = {} if is_reset(new) else _managers(new) or known
        if not known and "managedFields" not in mapping(new, "metadata"):
            return new
        return with_managers(new, self._managers_after_update(live, new, known) if known else {})

    def apply(self, live: Data, config: Data) -> Data:
        """Apply a configuration to an object, or to {}; ClusterError 400, 409 for conflicts, or 500."""
        version = str(config.get("apiVersion", ""))
        if version != self._version:
            raise api_errors.bad_request(
                "Incorrect version specified in apply patch."
                f" Specified patch version: {version:.100}, expected: {self._version}"
            )
        if "managedFields" in mapping(config, "metadata"):
            raise api_errors.bad_request("metadata.managedFields must be nil")
        if messages := list(problems(self._shape, config)):
            namespace, own_name = self._call.path.namespace, name(config)
            location = f"{namespace}/{own_name}; {self._version}, Kind={self._resource.kind.name}"
            text = messages[0] if len(messages) == 1 else "\n  ".join(["errors:", *messages])
            raise ClusterError(f"failed to create typed patch object ({location}): {text}", status=500)
        config = self._part(config)
        managers = _managers(live) or self._managers_after_update({}, self._part(live), {}, BEFORE_FIRST_APPLY)
        owner, now = Owner(self._name, APPLY, "", self._call.path.subresource), self._cluster.timestamp()
        result = apply_configuration(self._shape, live, config, managers, owner, version=self._version, now=now)
        allowed = NO_FIELDS
        if self._name == KUBECTL and (before := last_applied(live)):
            allowed = unchanged_since_last_applied(self._shape, before, live)
        conflicts = {owner: sort_paths(fields - allowed) for owner, fields in sorted(result.conflicts.items())}
        if any(conflicts.values()) and not is_flag_set(self._call.query, "force"):
            raise conflict_error(conflicts)
        data = with_last_applied(result.data, config) if self._name == KUBECTL else result.data
        return with_managers(data, result.managers)

    @cached_property
    def _shape(self) -> MergeShape:
        return resource_shape(self._resource)

    @property
    def _version(self) -> str:
        return self._resource.kind.api_version

    def _part(self, data: Data) -> Data:
        """Return the part of an object that the path is about: the status, or everything else."""
        if self._call.path.subresource in ("status", "approval"):
            names = ["apiVersion", "kind", "status", *([] if is_custom(self._resource.kind) else ["metadata"])]
            return {field: data[field] for field in names if field in data}
        has_status = "status" in self._resource.subresources
        return {field: value for field, value in data.items() if field != "status" or not has_status}

    def _managers_after_update(
        self, old: Data, new: Data, managers: dict[Owner, ManagedFields], manager: str | None = None
    ) -> dict[Owner, ManagedFields]:
        owner = Owner(manager or self._name, UPDATE, self._version, self._call.path.subresource)
        now = self._cluster.timestamp()
        return managers_after_update(self._shape, old, new, managers, owner, version=self._version, now=now)


def _managers(data: Data) -> dict[Owner, ManagedFields]:
    try:
        return decode_managers(data)
    except ValueError:
        return {}


def conflict_error(fields: Mapping[Owner, Sequence[Path]]) -> ClusterError:
    conflicts = {owner: [format_field_path(path) for path in paths] for owner, paths in fields.items() if paths}
    causes = tuple(
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, paths in conflicts.items()
        for path in paths
    )
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for owner, paths in conflicts.items():
            lines += [f"conflicts with {owner}:", *(f"- {path}" for path in paths)]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ClusterError(message, status=409, reason="Conflict", causes=causes)


KUBECTL = "kubectl"

_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied(data: Data) -> Data | None:
    """Return the configuration that kubectl last applied client-side; None if there is none or it is invalid."""
    text = mapping(data, "metadata.annotations").get(_ANNOTATION)
    try:
        config = msgspec.json.decode(text) if isinstance(text, str) and text else None
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def with_last_applied(data: Data, config: Data) -> Data:
    """Update kubectl's annotation to the applied configuration; an object without it gets none."""
    if last_applied(data) is None:
        return data
    rest = {name: value for name, value in mapping(config, "metadata.annotations").items() if name != _ANNOTATION}
    text = msgspec.json.encode(_with_annotations(config, rest), order="sorted").decode() + "\n"
    return _with_annotations(data, mapping(data, "metadata.annotations") | {_ANNOTATION: text})


def _with_annotations(data: Data, annotations: Data) -> Data:
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name != "annotations"}
    return {**data, "metadata": metadata | ({"annotations": annotations} if annotations else {})}
