"""Who owns which field after a write: the rules of server-side apply.

An update takes what it changes from those who had it. Who applies owns all that he applies, beside others, and what he
no longer applies goes if nobody else owns it. What he would change of others is a conflict, if he does not force it.
"""

from __future__ import annotations

from typing import NamedTuple

from kframework.fake_api.apply.comparison import Comparison, compared, fields_of, with_named_fields
from kframework.fake_api.apply.field_paths import NO_FIELDS, Fields, Path, field
from kframework.fake_api.apply.managed_fields import Managed, Managers, Owner, capped
from kframework.fake_api.apply.merging import merged, without
from kframework.fake_api.apply.shapes import Shape
from kframework.fake_api.wire.documents import Data

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
