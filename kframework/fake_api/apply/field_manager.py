"""Keeps the managed fields of what one call writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from kframework.client import api_errors
from kframework.client.request_attributes import flag
from kframework.errors import ClusterError
from kframework.fake_api.apply.managed_fields import (
    APPLY,
    NO_FIELDS,
    UPDATE,
    Fields,
    Managed,
    Owner,
    Path,
    are_reset,
    in_order,
    in_words,
    managers_of,
    with_managers,
)
from kframework.fake_api.apply.ownership import Applied, allowed_by_last_applied, applied, updated
from kframework.fake_api.apply.shapes import Shape, problems, shape_of
from kframework.fake_api.calls import Call
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, name
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.generations import is_custom
from kframework.objects import CSINode, Event, Lease, Node, Pod, ResourceClaim, ResourceSlice

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
        self._check(config)
        config = self._part(config)
        result = self._apply(live, config, _managers(live) or self._before_first_apply(live))
        allowed = self._allowed(live)
        conflicts = {owner: in_order(fields - allowed) for owner, fields in sorted(result.conflicts.items())}
        if any(conflicts.values()) and not flag(self._call.query, "force"):
            raise conflict(conflicts)
        data = with_last_applied(result.data, config) if self._name == KUBECTL else result.data
        return with_managers(data, result.managers)

    # -- steps ---------------------------------------------------------------------------------------------------------

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
        return {field: said for field, said in data.items() if field != "status" or not self._resource.has_status}

    def _updated(
        self, old: Data, new: Data, managers: dict[Owner, Managed], manager: str | None = None
    ) -> dict[Owner, Managed]:
        owner = Owner(manager or self._name, UPDATE, self._version, self._call.path.subresource)
        now = self._cluster.timestamp()
        return updated(self._shape, old, new, managers, owner, version=self._version, now=now)

    def _before_first_apply(self, live: Data) -> dict[Owner, Managed]:
        return self._updated({}, self._part(live), {}, BEFORE_FIRST_APPLY)

    def _apply(self, live: Data, config: Data, managers: dict[Owner, Managed]) -> Applied:
        owner = Owner(self._name, APPLY, "", self._call.path.subresource)
        now = self._cluster.timestamp()
        return applied(self._shape, live, config, managers, owner, version=self._version, now=now)

    def _check(self, config: Data) -> None:
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

    def _allowed(self, live: Data) -> Fields:
        """Return what kubectl may change of others: what it applied itself, when it still did so as a client."""
        said = last_applied(live) if self._name == KUBECTL else None
        return allowed_by_last_applied(self._shape, said, live) if said else NO_FIELDS


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
    return ClusterError(_message(fields), status=409, reason="Conflict", causes=causes)


def _message(fields: Mapping[Owner, Sequence[Path]]) -> str:
    found = {owner: [in_words(path) for path in paths] for owner, paths in fields.items() if paths}
    count = sum(map(len, found.values()))
    if count == 1:
        ((owner, (path,)),) = found.items()
        return f"Apply failed with 1 conflict: conflict with {owner}: {path}"
    lines: list[str] = []
    for owner, paths in found.items():
        lines += [f"conflicts with {owner}:", *(f"- {path}" for path in paths)]
    return f"Apply failed with {count} conflicts: " + "\n".join(lines)


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
