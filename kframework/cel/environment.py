"""What every expression in Kubernetes 1.36 may name: the libraries, and the names of types.

It is the environment of stored expressions, which have everything, also what is behind a feature gate that is off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from kframework.cel.checker import Environment
from kframework.cel.functions import Overload
from kframework.cel.library import (
    authorizer,
    cidr,
    conversions,
    format,
    ip,
    lists,
    maps,
    optional,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    times,
    url,
)
from kframework.cel.types import DURATION, DYN, TIMESTAMP, Type, list_of, map_of, optional_of, type_of

_LIBRARIES = (
    authorizer,
    cidr,
    conversions,
    format,
    ip,
    lists,
    maps,
    optional,
    quantity,
    regex,
    semver,
    sets,
    standard,
    strings,
    times,
    url,
)
_OVERLOADS = tuple(chain.from_iterable(library.OVERLOADS for library in _LIBRARIES))
_NAMED = (
    *map(Type, ("bool", "bytes", "double", "int", "null_type", "string", "uint")),
    *map(Type, ("net.IP", "net.CIDR")),  # of Kubernetes' own types only these have names
    DURATION,
    TIMESTAMP,
    list_of(DYN),
    map_of(DYN, DYN),
    optional_of(DYN),
    type_of(DYN),
)
_TYPES = {type.name: type_of(type) for type in _NAMED}


def environment(
    variables: Mapping[str, Type], fields: Mapping[Type, Mapping[str, Type]], overloads: Iterable[Overload] = ()
) -> Environment:
    """Return the environment in which there are these variables; `fields` are those of the types that have some."""
    return Environment((*_OVERLOADS, *overloads), variables, _TYPES, fields)
