"""Kind `group`: cycles of one pod group, recorded from the alpha of 1.36 and read as groups of 1.37."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec.structs import replace

from kframework.core.runtime.registry import Registry
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
from kframework.state.inbox import Synced, Upserted
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Case, Fact, Uncompared, compare_keys
from kframework.testing.conformance.claims import ClaimRecorder
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


class MemberResult(ApiStruct, frozen=True, kw_only=True):
    """What became of a member: `bound` to its node, `failed`, or `dropped`."""

    outcome: str
    node: str = ""


class GroupResult(ApiStruct, frozen=True, kw_only=True):
    """The result of a group's cycle, as far as 1.37 must agree with that of the alpha.

    `pre_enqueue` has the codes and messages of the plugins that hold back a member.
    """

    pre_enqueue: dict[str, dict[str, dict[str, str]]] = msgspec.field(default_factory=dict)
    order: tuple[str, ...] = ()
    members: dict[str, MemberResult] = msgspec.field(default_factory=dict)


def compare(case: Case, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Compare who is held back, the order of the walk and what becomes of each member, or say why not."""
    recorded = case.input_as(GroupInput)
    reason = reason_to_pass_over(case, recorded)
    if reason:
        yield Uncompared("answers", reason)
        return
    expected = [case.result_as(result, GroupResult) for result in case.expect_any_of or (case.expect,)]
    got = decide(recorded, registry)
    if len(expected[0].pre_enqueue) < len(recorded.pending) and expected[0].pre_enqueue:
        yield Uncompared("order and members", "1.37 holds a group back with each of its pods")
        got = GroupResult(pre_enqueue=got.pre_enqueue)
        expected = [GroupResult(pre_enqueue=result.pre_enqueue) for result in expected]
    closest = got if got in expected else expected[0]
    if closest.members != got.members and any(_has_pod_affinity(pod) for pod in recorded.pending):
        yield Uncompared("members", "1.36 does not see the affinity of members that it placed before")
        closest = replace(closest, members=got.members)
    yield from compare_keys(closest.pre_enqueue, got.pre_enqueue, "preEnqueue")
    yield Fact(("order",), list(closest.order), list(got.order))
    yield from compare_keys(closest.members, got.members, "members")


def decide(recorded: GroupInput, registry: Registry) -> GroupResult:
    """Run the cycle of the group in an engine with the gates of 1.37."""
    inputs = replace(recorded, feature_gates=dict(recorded.gates()))
    engine = inputs.engine(registry)
    for subject in (*recorded.groups(), *recorded.pending):
        engine.offer(Upserted(subject))
    engine.apply_messages()
    pods = [PendingPod(pod, engine.cluster.interner) for pod in recorded.pending]
    gates = {pod.key: status for pod in pods if (status := engine.profiles.run_pre_enqueue(pod)) is not None}
    for nominated in recorded.nominated_pods:
        engine.queue.delete(nominated.metadata.uid)
    engine.offer(Synced())
    engine.step()
    engine.complete_step()
    decisions = cast("ClaimRecorder", engine.host).decisions
    members = {
        decision.pod: MemberResult(outcome="bound" if decision.node else "failed", node=decision.node)
        for decision in decisions
    }
    dropped = {pod.key: MemberResult(outcome="dropped") for pod in pods if decisions and pod.key not in members}
    return GroupResult(
        pre_enqueue={
            pod: {status.plugin: {"code": status.code.title, "message": status.message}}
            for pod, status in gates.items()
        },
        order=tuple(members),
        members={**members, **dropped},
    )


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
    members = (*recorded.pending, *(pod for pod in recorded.pods if _group_of(pod) == _group_of(recorded.pending[0])))
    for what in ("scheduler_name", "preemption_policy"):
        if len({getattr(pod.spec, what) for pod in members}) > 1:
            return f"members differ in {what.replace('_', ' ')}"
    if recorded.nominated_pods and any(pod.status.nominated_node_name for pod in recorded.pending):
        return "it is not known when 1.36 counts other nominated pods beside nominated members"
    lowest = min((pod.spec.priority or 0 for pod in recorded.pending), default=0)
    if any((pod.spec.priority or 0) < lowest for pod in recorded.pods):
        return "1.37 may evict pods of lower priority"
    return ""


def _has_pod_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _group_of(pod: Pod) -> tuple[str, str] | None:
    group = pod.spec.scheduling_group
    return None if group is None else (pod.metadata.namespace, group.pod_group_name or "")
