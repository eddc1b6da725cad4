"""Compiled device selectors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from kframework.cel.checker import Environment
from kframework.cel.environment import build_environment
from kframework.cel.errors import CelError
from kframework.cel.evaluation import Evaluation
from kframework.cel.functions import generic_method
from kframework.cel.library.quantity import CelQuantity
from kframework.cel.library.semver import Semver
from kframework.cel.program import CelProgram, compile_program
from kframework.cel.types import ANY, BOOL, DYN, STRING, Type, map_of
from kframework.cel.values import DomainMap, is_element, type_name

#: Many devices have few distinct sizes and versions: each is parsed once, and the results are immutable.
_quantity = lru_cache(maxsize=4096)(CelQuantity.parse)
_version = lru_cache(maxsize=4096)(Semver.parse)


class CelDevice:
    """A device of a slice, converted once for all selectors.

    `attributes` are as in the API, `{"index": {"int": 3}}`, and `capacity` are quantities by name. A name without a
    domain is in the driver's. `failure` is the error of an attribute, if any: then no selector can be evaluated.
    `list_attribute` is the first attribute with a list, if any: 1.36 can evaluate no selector then.
    """

    __slots__ = ("__weakref__", "failure", "list_attribute", "variables")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, object]],
        capacity: Mapping[str, str],
        allow_multiple_allocations: bool,
    ) -> None:
        self.failure: CelError | None = None
        self.list_attribute: str = next((name for name, each in attributes.items() if _list_kind(each)), "")
        by_domain: tuple[DomainMap, DomainMap] = DomainMap(), DomainMap()
        try:
            for name, attribute in attributes.items():
                _put(by_domain[0], driver, name, _attribute(name, attribute))
            for name, quantity in capacity.items():
                _put(by_domain[1], driver, name, _quantity(quantity))
        except CelError as error:
            self.failure = error
        fields = {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple_allocations,
            "attributes": by_domain[0],
            "capacity": by_domain[1],
        }
        self.variables: Mapping[str, Any] = {"device": fields}


def _put(by_domain: DomainMap, driver: str, name: str, value: object) -> None:
    domain, slash, identifier = name.partition("/")
    by_domain.setdefault(domain if slash else driver, {})[identifier if slash else name] = value


def _attribute(name: str, attribute: Mapping[str, object]) -> object:
    for kind, type in (("int", int), ("bool", bool), ("string", str)):
        value = attribute.get(kind)
        if isinstance(value, type):
            return value
    kind = _list_kind(attribute)
    values = attribute.get(kind) if kind else [attribute.get("version")]
    if not isinstance(values, list | tuple) or values == [None]:
        raise CelError(f"attribute {name}: unsupported attribute value")
    if kind not in ("", "versions"):
        return list(values)
    try:
        versions = [_version(str(value)) for value in values]
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error.text}") from None
    return versions if kind else versions[0]


def _list_kind(attribute: Mapping[str, object]) -> str:
    """Return the field with a list of values; empty if the attribute has a single value."""
    return next((kind for kind in ("ints", "bools", "strings", "versions") if attribute.get(kind)), "")


MAX_VALUES = 48  # ResourceSliceMaxAttributeValuesPerDevice


def _includes(target: object, value: object) -> bool:
    """Return whether an attribute is, or as a list contains, a value."""
    if not isinstance(target, list):
        return is_element(value, [target])
    if is_element(value, target[:MAX_VALUES]):
        return True
    if len(target) > MAX_VALUES:
        raise CelError(f"'includes' function cannot be applied to lists longer than {MAX_VALUES} values")
    return False


_DEVICE = Type("kubernetes.DRADevice")


def _environment(value: Type) -> Environment:
    """Return the environment of every expression, the `device` variable, and the one function of the device library."""
    return build_environment(
        variables={"device": _DEVICE},
        fields={
            _DEVICE: {
                "driver": STRING,
                "allowMultipleAllocations": BOOL,
                "attributes": map_of(STRING, map_of(STRING, value)),
                "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
            }
        },
        overloads=generic_method("includes", "dyn, dyn -> bool", apply=_includes),
    )


#: By the type of attributes: since 1.37 macros such as `exists` take them, as they may be lists.
_ENVIRONMENTS: Final = {attribute: _environment(attribute) for attribute in (ANY, DYN)}


class CompiledSelector:
    """A compiled expression."""

    __slots__ = ("_program", "expression")

    def __init__(self, program: CelProgram) -> None:
        self.expression: str = program.expression
        self._program = program

    def matches(self, device: CelDevice) -> bool:
        """Return whether a device matches; raises CelError if the evaluation fails."""
        return self.evaluate(device, Evaluation(device.variables))

    def evaluate(self, device: CelDevice, run: Evaluation) -> bool:
        """Return whether a device matches, and record the cost in the run; raises CelError."""
        if device.failure is not None:
            raise device.failure.with_expression(self.expression)
        value = self._program.evaluate(run)
        if value is True or value is False:
            return bool(value)
        text = f"CEL result of type {type_name(value)} could not be converted to bool"
        raise CelError(text, None, self.expression)


def compile_selector(expression: str, attribute: Type = DYN) -> CompiledSelector:
    """Compile a selector as Kubernetes does, for attributes of this type (ANY in 1.36); raises CelError."""

    def check(type: Type) -> str:
        return "" if type in (BOOL, ANY, attribute) else f"must evaluate to bool or the unknown type, not {type}"

    return CompiledSelector(compile_program(expression, _ENVIRONMENTS[attribute], check))
