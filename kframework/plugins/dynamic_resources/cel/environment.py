"""The environment of device selectors in Kubernetes 1.36: the libraries, the `device` variable, the names of types.

It is that of stored expressions, which have everything, also what is behind a feature gate that is off.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from kframework.plugins.dynamic_resources.cel.checker import Environment
from kframework.plugins.dynamic_resources.cel.library import (
    attributes,
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
from kframework.plugins.dynamic_resources.cel.types import (
    ANY,
    BOOL,
    DEVICE,
    DURATION,
    DYN,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)

_LIBRARIES = (
    attributes,
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

ENVIRONMENT: Final = Environment(
    overloads=chain.from_iterable(library.OVERLOADS for library in _LIBRARIES),
    variables={"device": DEVICE},
    types={type.name: type_of(type) for type in _NAMED},
    fields={
        DEVICE: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
        }
    },
)
