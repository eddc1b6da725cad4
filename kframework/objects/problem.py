"""Problems of values: the path of each and the reason, worded as Kubernetes' field errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kframework.errors import nearest_name

#: Keys of mappings and indices of lists, from the outermost on.
FieldPath = tuple[str | int, ...]


class MapKey(str):
    """A step of a path into a mapping with keys of the user's; paths show it in brackets."""

    __slots__ = ()


_SHOWN = 100  # characters of a value that a message quotes


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with the value at `path`; `nearest` is the valid name that was probably meant."""

    path: FieldPath
    message: str
    nearest: str | None = None

    def __str__(self) -> str:
        return f"{format_path(self.path)}: {self.message}"

    def with_prefix(self, path: FieldPath) -> Problem:
        """Return the problem as one of the value around it, which has this one at `path`."""
        return replace(self, path=(*path, *self.path))


def format_path(path: FieldPath) -> str:
    """Write a path as Kubernetes does: `spec.containers[0].resources.requests[nvidia.com/gpu]`."""
    return "".join(f".{step}" if _is_plain_name(step) else f"[{step}]" for step in path).removeprefix(".")


def _is_plain_name(step: str | int) -> bool:
    return isinstance(step, str) and not isinstance(step, MapKey) and "." not in step and "/" not in step


def invalid(path: FieldPath, value: object, detail: str) -> Problem:
    return Problem(path, f"Invalid value: {short_repr(value)}: {detail}")


def required(path: FieldPath, detail: str = "") -> Problem:
    """Report a value that is missing."""
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: FieldPath, value: object) -> Problem:
    return Problem(path, f"Duplicate value: {short_repr(value)}")


def forbidden(path: FieldPath, detail: str) -> Problem:
    return Problem(path, f"Forbidden: {detail}")


def not_supported(path: FieldPath, value: str, supported: Sequence[str]) -> Problem:
    names = ", ".join(short_repr(name) for name in supported)
    return Problem(
        path, f"Unsupported value: {short_repr(value)}: supported values: {names}", nearest_name(value, supported)
    )


def short_repr(value: object) -> str:
    """Write a value into a message: as JSON, cut off where it would fill the line."""
    text = json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
