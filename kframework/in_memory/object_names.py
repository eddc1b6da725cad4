"""Which names objects may have, by kind, in the words of apimachinery's validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kframework.client import api_errors
from kframework.client.api_errors import Complaint
from kframework.objects import ApiObject, kind_of
from kframework.objects.kinds import T
from kframework.objects.syntax import Complaints, dns_label, dns_subdomain

#: Kinds whose names stand in names of hosts; of those of RBAC any part of a path will do.
_LABELS = frozenset({("v1", "Namespace"), ("v1", "Service"), ("apps/v1", "StatefulSet")})
_PATH_SEGMENTS = "rbac.authorization.k8s.io/"


def named(subject: T) -> T:
    """Return the object; ClusterError 422 if its name is none for its kind."""
    metadata = subject.metadata
    complaints = _complaints(type(subject), metadata.name)
    if not complaints:
        return subject
    raise api_errors.all_invalid(type(subject), metadata.name, complaints)


def _complaints(kind: type[ApiObject], name: str) -> list[Complaint]:
    return [("metadata.name", f'Invalid value: "{name:.253}": {why}') for why in _rule(kind)(name)]


@cache
def _rule(kind: type[ApiObject]) -> Callable[[str], Complaints]:
    known = kind_of(kind)
    if known.api_version.startswith(_PATH_SEGMENTS):
        return _unlike_a_segment
    return dns_label if (known.api_version, known.name) in _LABELS else dns_subdomain


def _unlike_a_segment(name: str) -> Complaints:
    if name in (".", ".."):
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{each}'" for each in "/%" if each in name)
