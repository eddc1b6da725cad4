"""Kubernetes' authorizer: its functions are declared, but no selector has a value to use them on."""

from __future__ import annotations

from kframework.cel.functions import Overload, method
from kframework.cel.values import no_such_overload

_PREFIX = "kubernetes.authorization."
_SIGNATURES = {
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


def _declared(name: str, signatures: tuple[str, ...]) -> list[Overload]:
    def apply(*values: object) -> object:
        raise no_such_overload(name, values)

    return method(name, *map(_qualified, signatures), apply=apply)


def _qualified(signature: str) -> str:
    for word in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision"):
        signature = signature.replace(word, _PREFIX + word)
    return signature


OVERLOADS = [overload for name, signatures in _SIGNATURES.items() for overload in _declared(name, signatures)]
