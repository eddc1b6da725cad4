"""Which names objects may have, by kind, in the words of apimachinery's validation."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kframework.cluster import api_errors
from kframework.cluster.api_errors import Complaint
from kframework.objects import ApiObject, kind_of
from kframework.objects.kinds import T

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"


class _Rule(NamedTuple):
    """What a name looks like: its pattern, its greatest length, and what is said of one that does not."""

    pattern: re.Pattern[str]
    longest: int
    why: str


_AS_SUBDOMAIN = _Rule(
    re.compile(_SUBDOMAIN),
    253,
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')",
)
_AS_LABEL = _Rule(
    re.compile(_LABEL),
    63,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    f" an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')",
)
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
    found = _unlike_a_segment(name) if _of_rbac(kind) else _unlike(_rule(kind), name)
    return [("metadata.name", f'Invalid value: "{name:.253}": {why}') for why in found]


@cache
def _of_rbac(kind: type[ApiObject]) -> bool:
    return kind_of(kind).api_version.startswith(_PATH_SEGMENTS)


@cache
def _rule(kind: type[ApiObject]) -> _Rule:
    known = kind_of(kind)
    return _AS_LABEL if (known.api_version, known.name) in _LABELS else _AS_SUBDOMAIN


def _unlike(rule: _Rule, name: str) -> list[str]:
    found = [f"must be no more than {rule.longest} bytes"] if len(name) > rule.longest else []
    if rule.pattern.fullmatch(name) is None:
        has_dots = rule is _AS_LABEL and _AS_SUBDOMAIN.pattern.fullmatch(name) is not None
        found.append("must not contain dots" if has_dots else rule.why)
    return found


def _unlike_a_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in name]
