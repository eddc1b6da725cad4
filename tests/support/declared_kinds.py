"""Kinds that no scheduler knows by itself, declared as a plugin declares its own."""

from __future__ import annotations

from typing import ClassVar

from kframework.objects import ApiObject, ApiStruct, ObjectMeta, PrinterColumn, kind

__all__ = ["Gang", "GangSpec", "GangStatus", "Quota", "Team", "TeamSpec", "gang", "team"]


class TeamSpec(ApiStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many pods a team may run, and nothing else."""

    max_pods: int = 0


@kind("example.com/v1beta1", "teams")
class Team(ApiObject, frozen=True, kw_only=True):
    """A team, in a namespace."""

    spec: TeamSpec = TeamSpec()


@kind("example.com/v1", "quotas", namespaced=False)
class Quota(ApiObject, frozen=True, kw_only=True):
    """A kind without namespaces."""


class GangSpec(ApiStruct, frozen=True, kw_only=True):
    """How many pods are to run together."""

    size: int = 0


class GangStatus(ApiStruct, frozen=True, kw_only=True):
    """How many do, and what others write."""

    preserve_unknown_fields: ClassVar[bool] = True

    phase: str = ""
    pods_running: int = 0
    members: tuple[str, ...] = ()


@kind(
    "example.com/v1",
    "gangs",
    short_names=("gn",),
    columns=(PrinterColumn(name="PHASE", json_path=".status.phase"),),
)
class Gang(ApiObject, frozen=True, kw_only=True):
    """A kind with a status."""

    spec: GangSpec = GangSpec()
    status: GangStatus = GangStatus()


def gang(name: str = "crew", size: int = 3, **labels: str) -> Gang:
    """Make a gang in the namespace `default`."""
    return Gang(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=GangSpec(size=size))


def team(name: str = "red", max_pods: int = 0, **labels: str) -> Team:
    """Make a team in the namespace `default`."""
    return Team(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=TeamSpec(max_pods=max_pods))
