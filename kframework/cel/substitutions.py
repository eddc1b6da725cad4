"""What the checker has found type parameters to stand for, and whether one type may stand where another is wanted.

The rules are those of cel-go's checker, of which the results of overload resolution depend on each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kframework.cel.types import DYN, NEVER_NULL, Type

_STRUCTURED = frozenset({"list", "map", "optional_type"})


class Substitutions:
    """Types by type parameter; a failed attempt to assign leaves no trace."""

    def __init__(self) -> None:
        self._types: dict[Type, Type] = {}
        self._trail: list[tuple[Type, Type | None]] = []  # what was changed, and what stood there
        self._fresh = 0

    def fresh(self) -> Type:
        """Return a type parameter that occurs nowhere else."""
        self._fresh += 1
        return Type(f"${self._fresh}")

    def assign(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        """Return whether each type may stand for the other, and keep what that says about type parameters."""
        self._trail.clear()
        if len(wanted) == len(given) and all(map(self._assign, wanted, given)):
            return True
        for parameter, before in reversed(self._trail):
            if before is None:
                del self._types[parameter]
            else:
                self._types[parameter] = before
        return False

    def resolve(self, type: Type) -> Type:
        """Return a type with what is known of its parameters in their place."""
        if not type.is_parameter:
            return _mapped(type, self.resolve)
        found = self._types.get(type)
        return self.resolve(found) if found is not None else type

    def final(self, type: Type) -> Type:
        """Return a type without type parameters: what is not known of them is dynamic."""
        if not type.is_parameter:
            return _mapped(type, self.final)
        found = self._types.get(type)
        return self.final(found) if found is not None else DYN

    def _assign(self, wanted: Type, given: Type) -> bool:
        if given.is_parameter:
            found = self._substitute(given, wanted)
            if found or given in self._types:
                return found
        if wanted.is_parameter:
            return self._substitute(wanted, given)
        if wanted.is_unknown or given.is_unknown:
            return True
        if wanted.name == "null_type":
            return given.name not in NEVER_NULL
        if given.name == "null_type":
            return wanted.name not in NEVER_NULL
        if wanted.name != given.name:
            return False
        if wanted.name not in _STRUCTURED:
            return True
        return len(wanted.parameters) == len(given.parameters) and all(
            map(self._assign, wanted.parameters, given.parameters)
        )

    def _substitute(self, parameter: Type, type: Type) -> bool:
        """Return whether a type parameter may stand for a type, and keep it, or the more general of it and before."""
        if parameter == type:
            return True
        known = self._types.get(parameter)
        if known is None:
            if self._occurs(parameter, type):
                return False
            self._set(parameter, type)
            return True
        if type == known:
            return True
        if not self._assign(type, known):
            return False
        general = more_general(type, known)
        if not self._occurs(parameter, general):
            self._set(parameter, general)
        return True

    def _set(self, parameter: Type, type: Type) -> None:
        self._trail.append((parameter, self._types.get(parameter)))
        self._types[parameter] = type

    def _occurs(self, parameter: Type, type: Type) -> bool:
        if type == parameter:
            return True
        if type.is_parameter:
            known = self._types.get(type)
            return known is not None and self._occurs(parameter, known)
        return any(self._occurs(parameter, part) for part in type.parameters)


def instance(types: Sequence[Type], parameters: Mapping[Type, Type]) -> list[Type]:
    """Return types with their parameters replaced."""
    return [parameters[type] if type in parameters else _replaced(type, parameters) for type in types]


def more_general(one: Type, other: Type) -> Type:
    """Return the type that says less."""
    return one if _is_less_specific(one, other) else other


def _replaced(type: Type, parameters: Mapping[Type, Type]) -> Type:
    return Type(type.name, tuple(instance(type.parameters, parameters))) if type.parameters else type


def _mapped(type: Type, change: Callable[[Type], Type]) -> Type:
    return Type(type.name, tuple(map(change, type.parameters))) if type.parameters else type


def _is_less_specific(one: Type, other: Type) -> bool:
    if one.is_dynamic or one.is_parameter:
        return True
    if other.is_dynamic or other.is_parameter or one.name != other.name:
        return False
    return one.name == "type" or (
        len(one.parameters) == len(other.parameters) and all(map(_is_less_specific, one.parameters, other.parameters))
    )
