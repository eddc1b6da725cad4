"""Which names objects may have, by kind, in the words of apimachinery's validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kframework.client import api_errors
from kframework.objects import ApiObject, kind_of
from kframework.objects.kinds import T
from kframework.objects.syntax import Messages, dns_label, dns_subdomain

#: Kinds whose names stand in names of hosts; of those of RBAC any part of a path will do.
_LABELS = frozenset({("v1", "Namespace"), ("v1", "Service"), ("apps/v1", "StatefulSet")})
_PATH_SEGMENTS = "rbac.authorization.k8s.io/"


def named(subject: T) -> T:
    """Return the object; ClusterError 422 if its name is none for its kind."""
    name = subject.metadata.name
    messages = [f'Invalid value: "{name:.253}": {why}' for why in _rule(type(subject))(name)]
    if not messages:
        return subject
    raise api_errors.invalid(type(subject), name, "metadata.name", *messages)


@cache
def _rule(kind: type[ApiObject]) -> Callable[[str], Messages]:
    known = kind_of(kind)
    if known.api_version.startswith(_PATH_SEGMENTS):
        return _unlike_a_segment
    return dns_label if (known.api_version, known.name) in _LABELS else dns_subdomain


def _unlike_a_segment(name: str) -> Messages:
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{each}'" for each in "/%" if each in name)
