"""Budgets for disruption, and what priorities mean (policy/v1 and scheduling.k8s.io/v1)."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, LabelSelector


class PodDisruptionBudgetSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a budget; a number of pods or a percentage."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a budget; `disrupted_pods` maps pods already counted out to the time that happened."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(ApiObject, frozen=True, kw_only=True):
    """How many of a set of pods may be evicted at once."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(ApiObject, frozen=True, kw_only=True):
    """A name for a priority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
