"""What pods belong to: namespaces, services, owners, disruption budgets and priority classes."""

from __future__ import annotations

import msgspec

from kframework.objects.meta import ApiObject, ApiStruct, LabelSelector


class NamespaceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a namespace: who is to be done with it before it goes."""

    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct, frozen=True, kw_only=True):
    """The `status` of a namespace: whether it is Active or Terminating."""

    phase: str = ""


class Namespace(ApiObject, frozen=True, kw_only=True):
    """A namespace; a scheduler reads its labels."""

    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a service; no selector, unlike an empty one, selects nothing."""

    selector: dict[str, str] | None = None


class Service(ApiObject, frozen=True, kw_only=True):
    """A set of pods that serve together."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replication controller."""

    replicas: int | None = None
    selector: dict[str, str] = msgspec.field(default_factory=dict)


class ReplicationController(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods, chosen by plain labels."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a replica set or stateful set."""

    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiObject, frozen=True, kw_only=True):
    """A number of equal pods."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(ApiObject, frozen=True, kw_only=True):
    """A number of pods with identities of their own."""

    spec: WorkloadSpec = WorkloadSpec()


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
