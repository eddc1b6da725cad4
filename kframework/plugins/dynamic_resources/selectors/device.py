"""A device as its selectors see it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kframework.cel.errors import CelError
from kframework.cel.library.quantity import CelQuantity
from kframework.cel.library.semver import Semver
from kframework.cel.values import DomainMap

#: Many devices are of few sizes and versions: each is read once, and nobody changes what was read.
_quantity = lru_cache(maxsize=4096)(CelQuantity.parse)
_version = lru_cache(maxsize=4096)(Semver.parse)


class Device:
    """A device of a slice, read once for all the selectors that are asked about it.

    `attributes` are as in the API, `{"index": {"int": 3}}`, and `capacity` are quantities by name. A name without a
    domain is in the driver's. `failure` is what is wrong with an attribute: no selector can be asked then.
    """

    __slots__ = ("__weakref__", "failure", "variables")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, object]],
        capacity: Mapping[str, str],
        allow_multiple_allocations: bool,
    ) -> None:
        self.failure: CelError | None = None
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
    version = attribute.get("version")
    if not isinstance(version, str):
        raise CelError(f"attribute {name}: unsupported attribute value")
    try:
        return _version(version)
    except CelError as error:
        raise CelError(f"attribute {name}: parse semantic version: {error.text}") from None
