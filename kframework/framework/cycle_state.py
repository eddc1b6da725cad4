"""Storage for data that plugins keep between extension points, within one scheduling attempt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Cloneable(Protocol):
    """A stored value that changes under `add_pod` and `remove_pod`, and so must be copied before a what-if."""

    def clone(self) -> object:
        """Return a copy that can change without the original."""


class StateKey(Generic[T]):
    """A typed key of the cycle state: `CONFLICTS = StateKey[int]("VolumeRestrictions")`.

    Two keys of the same name are two keys; keep one in a module constant. `module` is the module that created it.
    """

    __slots__ = ("module", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name
        caller = sys._getframe(1)
        while caller.f_globals.get("__name__") == "typing" and caller.f_back is not None:  # StateKey[int](...)
            caller = caller.f_back
        self.module: str = caller.f_globals.get("__name__", "")

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


class StateKeyError(KeyError):
    """Raised when nothing was stored under a key; names the key and the module that created it."""

    def __init__(self, key: StateKey[T]) -> None:
        super().__init__(key.name)
        self.module: str = key.module

    def __str__(self) -> str:
        return f"nothing is stored under {self.args[0]!r}, a key of {self.module}"


class CycleState:
    """A store that lives for one attempt: a plugin's early hooks write it, its later ones read it.

    An attempt's state is layered on the read-only state of the pod's signature: reads fall through, writes stay on top.
    `group` is a state that the attempts of a PodGroup's pods share while nodes are looked for; None for other pods.
    """

    __slots__ = ("_parent", "_values", "group")

    def __init__(self, parent: CycleState | None = None, group: CycleState | None = None) -> None:
        self.group: CycleState | None = group
        self._parent = parent
        self._values: dict[StateKey[object], object] = {}

    def __getitem__(self, key: StateKey[T]) -> T:
        state: CycleState | None = self
        while state is not None:
            # The key carries the type of its value, which a dict type cannot express.
            values: dict[StateKey[T], T] = state._values  # type: ignore[assignment]  # a cast is a call more
            if key in values:
                return values[key]
            state = state._parent
        raise StateKeyError(key)

    def __setitem__(self, key: StateKey[T], value: T) -> None:
        values: dict[StateKey[T], T] = self._values  # type: ignore[assignment]  # a cast is a call more
        values[key] = value

    def __contains__(self, key: StateKey[T]) -> bool:
        return key in self._values or (self._parent is not None and key in self._parent)

    def __iter__(self) -> Iterator[StateKey[object]]:
        yield from self._values
        if self._parent is not None:
            yield from (key for key in self._parent if key not in self._values)

    def get(self, key: StateKey[T]) -> T | None:
        """Return the value of the key, or None."""
        return self[key] if key in self else None

    def with_parent(self, parent: CycleState) -> CycleState:
        """Return the state with the same writes on top of another one."""
        state = CycleState(parent, self.group)
        state._values = self._values
        return state

    def clone(self) -> CycleState:
        """Copy the state for a what-if: values that can clone themselves are copied, all others shared."""
        copy = CycleState(group=self.group)
        for key in self:
            value = self[key]
            # `isinstance(value, Cloneable)` would take ten microseconds, and every dry run clones.
            clone = getattr(value, "clone", None)
            copy._values[key] = value if clone is None else clone()
        return copy

    def __repr__(self) -> str:
        return f"<CycleState {', '.join(sorted(key.name for key in self)) or 'empty'}>"
