"""The order of the API groups in discovery: it decides what a name means that several have for a resource of theirs.

kubectl takes the first group that offers a resource of the name: `kubectl get podgroups` is about one of three here.
A real API server puts its own groups first, but serves their alpha versions only if it is told to. Here all are served,
so that comes first of which there are objects, then what is more stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from kframework.fake_api.served import Resource


def in_order(served: Iterable[Resource], has_objects: Callable[[Resource], bool]) -> tuple[Resource, ...]:
    """Order what is served by its groups, and within a group by version and name."""
    groups: dict[str, list[Resource]] = {}
    offering: dict[str, set[str]] = {}
    for resource in sorted(served, key=lambda each: (each.group, each.version, each.kind.plural)):
        groups.setdefault(resource.group, []).append(resource)
        if resource.group:  # the core comes before all others, wherever it stands
            offering.setdefault(resource.kind.plural, set()).add(resource.group)

    def rank(name: str) -> tuple[bool, int, str]:
        contested = [each for each in groups[name] if len(offering.get(each.kind.plural, ())) > 1]
        instability = max((_instability(each.version) for each in contested), default=0)
        return bool(contested) and not any(map(has_objects, contested)), instability, name

    return tuple(chain.from_iterable(groups[name] for name in sorted(groups, key=rank)))


def _instability(version: str) -> int:
    return 2 if "alpha" in version else 1 if "beta" in version else 0
