"""The CEL environment of Kubernetes 1.36: its libraries and type names.

It is the environment of stored expressions, which includes functions behind disabled feature gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from kframework.cel.checker import Environment
from kframework.cel.functions import Overload, method
from kframework.cel.library import (
    conversions,
    format,
    ip,
    lists,
    quantity,
    regex,
    semver,
    standard,
    strings,
    times,
    url,
)
from kframework.cel.types import DURATION, DYN, TIMESTAMP, Type, list_of, map_of, optional_of, type_of
from kframework.cel.values import no_such_overload

_LIBRARIES = (conversions, format, ip, lists, quantity, regex, semver, standard, strings, times, url)
_NAMED_TYPES = (
    *map(Type, ("bool", "bytes", "double", "int", "null_type", "string", "uint")),
    *map(Type, ("net.IP", "net.CIDR")),  # Kubernetes' other types have no names
    DURATION,
    TIMESTAMP,
    list_of(DYN),
    map_of(DYN, DYN),
    optional_of(DYN),
    type_of(DYN),
)
_TYPES = {type.name: type_of(type) for type in _NAMED_TYPES}
_AUTHORIZER = "kubernetes.authorization."
#: Kubernetes' authorizer: its functions are declared, but no expression has an authorizer.
_AUTHORIZER_SIGNATURES = {
    "path": ("Authorizer, string -> PathCheck",),
    "group": ("Authorizer, string -> GroupCheck",),
    "serviceAccount": ("Authorizer, string, string -> Authorizer",),
    "resource": ("GroupCheck, string -> ResourceCheck",),
    "subresource": ("ResourceCheck, string -> ResourceCheck",),
    "namespace": ("ResourceCheck, string -> ResourceCheck",),
    "name": ("ResourceCheck, string -> ResourceCheck",),
    "fieldSelector": ("ResourceCheck, string -> ResourceCheck",),
    "labelSelector": ("ResourceCheck, string -> ResourceCheck",),
    "check": ("PathCheck, string -> Decision", "ResourceCheck, string -> Decision"),
    "allowed": ("Decision -> bool",),
    "reason": ("Decision -> string",),
    "errored": ("Decision -> bool",),
    "error": ("Decision -> string",),
}


def build_environment(
    variables: Mapping[str, Type], fields: Mapping[Type, Mapping[str, Type]], overloads: Iterable[Overload] = ()
) -> Environment:
    functions: dict[str, list[Overload]] = {}
    for overload in (*_OVERLOADS, *overloads):
        functions.setdefault(overload.function, []).append(overload)
    return Environment(functions, variables, _TYPES, fields)


def _declare_unusable(name: str, signatures: tuple[str, ...]) -> list[Overload]:
    def apply(*values: object) -> object:
        raise no_such_overload(name, values)

    for word in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision"):
        signatures = tuple(signature.replace(word, _AUTHORIZER + word) for signature in signatures)
    return method(name, *signatures, apply=apply)


_OVERLOADS = (
    *chain.from_iterable(library.OVERLOADS for library in _LIBRARIES),
    *chain.from_iterable(_declare_unusable(name, signatures) for name, signatures in _AUTHORIZER_SIGNATURES.items()),
)
