"""A simulation whose profile has a shadow."""

from __future__ import annotations

from collections.abc import Iterable

from kframework import Plugin, Simulation
from kframework.config.load import parse
from kframework.core.shadow.shadow import Shadow
from kframework.objects import ApiObject

__all__ = ["CONFIGURATION", "only_shadow", "shadowed"]

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: candidate
  {candidate}
---
apiVersion: kframework.dev/v1
kind: KFrameworkConfiguration
profiles:
- {{schedulerName: candidate, shadow: default-scheduler}}
"""


def shadowed(
    objects: Iterable[ApiObject], candidate: str = "plugins: {}", *, plugins: Iterable[type[Plugin]] = ()
) -> Simulation:
    """Simulate the default profile, shadowed by one with these fields."""
    return Simulation([*objects], parse(CONFIGURATION.format(candidate=candidate)), plugins=plugins)


def only_shadow(simulation: Simulation) -> Shadow:
    (shadow,) = simulation.scheduler.shadows
    return shadow
