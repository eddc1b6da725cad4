"""Validation of lists of conditions that Kubernetes' common rules hold for (`metav1.Condition`)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, invalid, required, too_long, too_many, unsupported
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import text
from kframework.objects.syntax import qualified_name

_STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_BAD_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)
_MAX_REASON, _MAX_MESSAGE = 1 << 10, 32 << 10


def condition_causes(conditions: list[Data], path: str, most: int) -> Iterator[Cause]:
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        location, type = f"{path}[{index}]", text(condition, "type")
        if type in types:
            yield duplicate(f"{location}.type", type)
        types.add(type)
        yield from (invalid(f"{location}.type", type, each) for each in qualified_name(type))
        if (status := text(condition, "status")) not in _STATUSES:
            yield unsupported(f"{location}.status", status, _STATUSES)
        if isinstance(generation := condition.get("observedGeneration"), int) and generation < 0:
            message = "must be greater than or equal to zero"
            yield invalid(f"{location}.observedGeneration", generation, message)
        if not condition.get("lastTransitionTime"):
            yield required(f"{location}.lastTransitionTime", "must be set")
        reason = text(condition, "reason")
        if not reason:
            yield required(f"{location}.reason", "must be set")
        elif not _REASON.fullmatch(reason):
            yield invalid(f"{location}.reason", reason, _BAD_REASON)
        if len(reason) > _MAX_REASON:
            yield too_long(f"{location}.reason", _MAX_REASON)
        if len(text(condition, "message")) > _MAX_MESSAGE:
            yield too_long(f"{location}.message", _MAX_MESSAGE)
    if len(conditions) > most:
        yield too_many(path, len(conditions), most)
