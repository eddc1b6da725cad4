"""Kind `group`: cycles of one pod group, recorded from the alpha of 1.36 and read as groups of 1.37."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

_BASIC = PodGroupSchedulingPolicy(basic=CHOSEN)
#: The fields in which 1.37 demands that members are equal, with their defaults.
_EQUAL = {"priority": 0, "scheduler_name": "default-scheduler", "preemption_policy": "PreemptLowerPriority"}
_MODES = {"": None, "Pod": DisruptionMode(single=CHOSEN), "PodGroup": DisruptionMode(all=CHOSEN)}


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
        """Yield the groups as Kubernetes 1.37 has them; without the gate for gangs, a gang was a group like others."""
        has_gangs = self.feature_gates.get("GangScheduling", False)
        for alpha in self.pod_groups:
            spec, key = alpha.spec, (alpha.metadata.namespace, alpha.metadata.name)
            members = (pod for pod in (*self.pending, *self.pods) if _group_of(pod) == key)
            yield PodGroup(
                metadata=alpha.metadata,
                spec=PodGroupSpec(
                    scheduling_policy=spec.scheduling_policy if has_gangs else _BASIC,
                    scheduling_constraints=spec.scheduling_constraints,
                    disruption_mode=_MODES[spec.disruption_mode],
                    priority=next((pod.spec.priority or 0 for pod in members), spec.priority),
                ),
            )

    def nominated(self) -> Iterator[Pod]:
        """Yield the nominated pods as 1.36 counted them: pods in no queue are there without requests and priority."""
        for pod in self.nominated_pods:
            yield replace(pod, spec=replace(pod.spec, containers=(), priority=0))

    def gates(self) -> Mapping[str, bool]:
        """Return the gates of 1.37 with which it decides the case."""
        kept = ("GenericWorkload", "TopologyAwareWorkloadScheduling")
        return {name: is_on for name, is_on in self.feature_gates.items() if name in kept}


class MemberResult(ApiStruct, frozen=True, kw_only=True):
    """What became of a member: `bound` to its node, `failed`, or `dropped`."""

    outcome: str
    node: str = ""
    nominated_node: str = ""


class GroupResult(ApiStruct, frozen=True, kw_only=True):
    """The result of a group's cycle, as far as 1.37 must agree with that of the alpha.

    `pre_enqueue` has the codes and messages of the plugins that hold back a member.
    """

    pre_enqueue: dict[str, dict[str, dict[str, str]]] = msgspec.field(default_factory=dict)
    order: tuple[str, ...] = ()
    members: dict[str, MemberResult] = msgspec.field(default_factory=dict)
    victims: tuple[str, ...] = ()


def compare(case: Case, registry: Registry) -> Iterator[Fact | Uncompared]:
    """Compare who is held back, the order of the walk and what becomes of each member, or say why not."""
    recorded = case.input_as(GroupInput)
    expected = [case.result_as(result, GroupResult) for result in case.expect_any_of or (case.expect,)]
    reason = reason_to_pass_over(recorded, expected[0])
    if reason:
        yield Uncompared("answers", reason)
        return
    got = decide(recorded, registry)
    reason = reason_to_pass_members_over(recorded, expected[0])
    if expected[0].pre_enqueue and len(expected[0].pre_enqueue) < len(recorded.pending):
        reason = "1.37 holds a group back with each of its pods"
        expected, got = [replace(each, order=()) for each in expected], replace(got, order=())
    closest = next((each for each in expected if each.members == got.members), expected[0])
    if closest.members != got.members:
        reason = reason or _reason_to_differ(recorded.pending)
    yield from compare_keys(closest.pre_enqueue, got.pre_enqueue, "preEnqueue")
    dropped = {name for name, each in closest.members.items() if each.outcome == "dropped"}
    yield Fact(("order",), [name for name in closest.order if name not in dropped], list(got.order))
    if reason:
        yield Uncompared("members", reason)
    else:
        yield from compare_keys(closest.members, got.members, "members")


def decide(recorded: GroupInput, registry: Registry) -> GroupResult:
    """Run the cycle of the group in an engine with the gates of 1.37."""
    others = tuple(recorded.nominated())
    inputs = replace(recorded, feature_gates=dict(recorded.gates()), nominated_pods=others)
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


def reason_to_pass_over(recorded: GroupInput, expected: GroupResult) -> str:
    """Return why 1.37 may decide all of a case otherwise, "" if its answers must agree."""
    if len({pod.spec.scheduler_name for pod in recorded.pending}) > 1:
        return "pods of another scheduler are in another queue"
    known = {(group.metadata.namespace, group.metadata.name) for group in recorded.groups()}
    if _group_of(recorded.pending[0]) not in known and not expected.pre_enqueue:
        return "1.37 schedules no pod whose group does not exist"
    return ""


def reason_to_pass_members_over(recorded: GroupInput, expected: GroupResult) -> str:
    """Return why 1.37 may decide otherwise what becomes of the members, "" if its answers must agree."""
    group = _group_of(recorded.pending[0])
    members = (*recorded.pending, *(pod for pod in recorded.pods if _group_of(pod) == group))
    for what, default in _EQUAL.items():
        if len({getattr(pod.spec, what) or default for pod in members}) > 1:
            return f"members differ in {what.replace('_', ' ')}"
    if expected.victims or any(each.nominated_node for each in expected.members.values()):
        return "1.37 preempts for the whole group, and not in the walk"
    return ""


def _reason_to_differ(pending: Sequence[Pod]) -> str:
    if any(map(_has_pod_affinity, pending)):
        return "1.36 does not see the affinity of members that it placed before"
    if sum(bool(pod.status.nominated_node_name) for pod in pending) > 1:
        return "1.36 does not keep the rooms of nominated members from each other"
    return ""


def _has_pod_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _group_of(pod: Pod) -> tuple[str, str] | None:
    group = pod.spec.scheduling_group
    return None if group is None else (pod.metadata.namespace, group.pod_group_name or "")
