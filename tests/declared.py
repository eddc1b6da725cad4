"""Kinds that no scheduler knows by itself, declared as a plugin declares its own."""

from __future__ import annotations

from kframework.objects import ApiObject, ApiStruct, ObjectMeta, kind

__all__ = ["Quota", "Team", "TeamSpec", "team"]


class TeamSpec(ApiStruct, frozen=True, kw_only=True):
    """How many pods a team may run."""

    max_pods: int = 0


@kind("example.com/v1beta1", "teams")
class Team(ApiObject, frozen=True, kw_only=True):
    """A team, in a namespace."""

    spec: TeamSpec = TeamSpec()


@kind("example.com/v1", "quotas", namespaced=False)
class Quota(ApiObject, frozen=True, kw_only=True):
    """A kind without namespaces."""


def team(name: str = "red", max_pods: int = 0, **labels: str) -> Team:
    """Make a team in the namespace `default`."""
    return Team(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=TeamSpec(max_pods=max_pods))
