"""The environment of device selectors: that of every expression, the `device` variable, and its own library."""

from __future__ import annotations

from typing import Final

from kframework.cel.environment import environment
from kframework.cel.types import ANY, BOOL, STRING, Type, map_of
from kframework.plugins.dynamic_resources.selectors import attributes

_DEVICE = Type("kubernetes.DRADevice")

ENVIRONMENT: Final = environment(
    variables={"device": _DEVICE},
    fields={
        _DEVICE: {
            "driver": STRING,
            "allowMultipleAllocations": BOOL,
            "attributes": map_of(STRING, map_of(STRING, ANY)),
            "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
        }
    },
    overloads=attributes.OVERLOADS,
)
