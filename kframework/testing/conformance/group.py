"""Kind `group`: cycles of one pod group, recorded from the alpha of 1.36 and read as groups of 1.37.

The engine does not decide groups yet, so no answer is compared: a case says whether it will be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kframework.objects import (
    DisruptionMode,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from kframework.objects.meta import ApiStruct
from kframework.objects.pod_groups import CHOSEN
from kframework.testing.conformance.cases import Case, Fact, Uncompared
from kframework.testing.conformance.recorded_cluster import RecordedCluster

_MODES = {"": None, "Pod": DisruptionMode(single=CHOSEN), "PodGroup": DisruptionMode(all=CHOSEN)}
#: Scenarios in which 1.37 decides otherwise than the alpha.
_CHANGED = frozenset({"preempt_group", "preempt_pods", "own_members", "nominated", "missing", "deleting"})


class AlphaGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """The spec of a group in v1alpha2, as far as cases have it."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str = ""
    priority: int | None = None


class AlphaGroup(ApiStruct, frozen=True, kw_only=True):
    """A group in v1alpha2."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AlphaGroupSpec = AlphaGroupSpec()


class GroupInput(RecordedCluster, frozen=True, kw_only=True):
    """A cluster with groups, and the unscheduled pods of the group in question in the order of their first attempts."""

    pending: tuple[Pod, ...] = ()
    pod_groups: tuple[AlphaGroup, ...] = ()

    def groups(self) -> Iterator[PodGroup]:
        """Yield the groups as Kubernetes 1.37 has them; MixedPrioritiesError where it would refuse their members."""
        for alpha in self.pod_groups:
            spec, key = alpha.spec, (alpha.metadata.namespace, alpha.metadata.name)
            priorities = {pod.spec.priority or 0 for pod in (*self.pending, *self.pods) if _group_of(pod) == key}
            if len(priorities) > 1:
                raise MixedPrioritiesError
            yield PodGroup(
                metadata=alpha.metadata,
                spec=PodGroupSpec(
                    scheduling_policy=spec.scheduling_policy,
                    scheduling_constraints=spec.scheduling_constraints,
                    disruption_mode=_MODES[spec.disruption_mode],
                    priority=next(iter(priorities), spec.priority),
                ),
            )

    def gates(self) -> Mapping[str, bool]:
        """Return the gates of 1.37 with which it decides the case."""
        kept = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
        return {name: is_on for name, is_on in self.feature_gates.items() if name in kept}


class MixedPrioritiesError(ValueError):
    """Raised for a group whose members differ in priority."""


def compare(case: Case) -> Iterator[Fact | Uncompared]:
    """Say why the answers of a case are not compared."""
    recorded = case.input_as(GroupInput)
    yield Uncompared("answers", reason_to_pass_over(case, recorded) or "the engine does not decide groups yet")


def reason_to_pass_over(case: Case, recorded: GroupInput) -> str:
    """Return why 1.37 may decide a case otherwise, "" if its answers must agree."""
    scenario = case.id.rpartition("-")[2]
    if scenario in _CHANGED:
        return f"1.37 decides {scenario} otherwise"
    try:
        groups = list(recorded.groups())
    except MixedPrioritiesError:
        return "members differ in priority"
    if not recorded.feature_gates.get("GangScheduling") and any(each.spec.scheduling_policy.gang for each in groups):
        return "1.37 has no groups without gangs"
    lowest = min((pod.spec.priority or 0 for pod in recorded.pending), default=0)
    if any((pod.spec.priority or 0) < lowest for pod in recorded.pods):
        return "1.37 may evict pods of lower priority"
    return ""


def _group_of(pod: Pod) -> tuple[str, str] | None:
    group = pod.spec.scheduling_group
    return None if group is None else (pod.metadata.namespace, group.pod_group_name or "")
