"""DefaultPreemption: a pod that fits nowhere preempts less important ones, where that costs least."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, ClassVar

from msgspec.structs import replace

from kframework.config.args import ApiArgs
from kframework.config.decode import Int32, schema_type
from kframework.framework.answers import Candidate, ClearNomination, Diagnosis, Preempt, PreemptForGroup, RejectedPod
from kframework.framework.cycle_state import CycleState
from kframework.framework.events import ActionType, ClusterEvent, EventResource, QueueingHint
from kframework.framework.handle import FindNodes
from kframework.framework.plugin import Plugin, Watch, hookimpl
from kframework.objects import GenericPodGroup, Pod, PodDisruptionBudget
from kframework.objects.problem import Problem, invalid
from kframework.plugins.shared_args import percentage_problems
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.feature_gates import FeatureGates
from kframework.values.status import Code, Status, unresolvable

REASON = "waiting for the preemption for this pod to be finished"

_GATED = unresolvable(REASON)
_GROUP_GATED = unresolvable("waiting for the preemption for this pod group to be finished")


class DefaultPreemptionArgs(ApiArgs):
    """The number of candidate nodes of a preemption: the larger of a percentage of the nodes and a number."""

    min_candidate_nodes_percentage: Annotated[Int32, schema_type(minimum=0, maximum=100)] = 10
    """How many of the nodes are looked at for victims, if that is more than the number below."""
    min_candidate_nodes_absolute: Annotated[Int32, schema_type(minimum=0)] = 100
    """How many nodes are looked at for victims at least; not 0 together with the percentage."""

    def problems(self, gates: FeatureGates) -> Iterator[Problem]:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        yield from percentage_problems(("minCandidateNodesPercentage",), percentage)
        if absolute < 0:
            yield invalid(("minCandidateNodesAbsolute",), absolute, "not in valid range [0, inf)")
        if percentage == absolute == 0:
            together = "cannot be zero at the same time as"
            yield invalid(("minCandidateNodesPercentage",), 0, f"{together} minCandidateNodesAbsolute")
            yield invalid(("minCandidateNodesAbsolute",), 0, f"{together} minCandidateNodesPercentage")


class DefaultPreemption(Plugin[DefaultPreemptionArgs]):
    """Find victims of lower priority for a pod that no node has room for."""

    name = "DefaultPreemption"
    watches: ClassVar[tuple[Watch, ...]] = (Watch(PodDisruptionBudget), Watch(Pod, verbs=("delete",)))

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        if not self.handle.preemption.in_progress(pod):
            return None
        return _GROUP_GATED if pod.group and self.handle.feature_gates.has_pod_groups else _GATED

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
    ) -> Preempt | ClearNomination | Status:
        preemption = self.handle.preemption
        rejection = preemption.blocked_reason(pod, diagnosis)
        if rejection is not None:
            return _with_prefix(rejection)
        result = preemption.candidates(
            state,
            pod,
            diagnosis,
            percentage=self.args.min_candidate_nodes_percentage,
            absolute=self.args.min_candidate_nodes_absolute,
        )
        if result.candidates:
            describe = None if self.handle.feature_gates.is_1_36 else _describe_preemption
            return Preempt(result.candidates, preemption.key, describe=describe)
        # If a dry run failed, the pod may still have a chance on its nominated node.
        status = _with_prefix(result.status)
        return status if status.code == Code.ERROR else ClearNomination(status)

    @hookimpl
    def pod_group_post_filter(
        self,
        group: GenericPodGroup,
        pods: Sequence[PendingPod],
        rejected: Sequence[RejectedPod],
        find_nodes: FindNodes,
    ) -> PreemptForGroup | Status:
        found = self.handle.preemption.for_group(group, pods, find_nodes)
        if isinstance(found, Status):
            return _with_group_prefix(found)
        text = f"found a placement for podgroup, preempting {len(found.victims)} victims"
        return replace(found, status=_with_group_prefix(Status(Code.SUCCESS, (text,))))

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        pods = EventResource.POD if self.handle.feature_gates.is_1_36 else EventResource.ASSIGNED_POD
        return [ClusterEvent(pods, ActionType.DELETE, after_pod_deletion, self._affected_pods)]

    def _affected_pods(self, old: PodInfo, new: None) -> Collection[str] | None:
        return self.handle.preemption.released()


def after_pod_deletion(pod: PendingPod, old: PodInfo, new: None) -> QueueingHint:
    """Skip, leaving the decision to the plugins that rejected the pod; registered so that gated pods are checked."""
    return QueueingHint.SKIP


def _with_prefix(status: Status) -> Status:
    return Status(status.code, (f"preemption: {status.message}",))


def _with_group_prefix(status: Status) -> Status:
    return Status(status.code, (f"pod group preemption: {status.message}",))


def _describe_preemption(candidate: Candidate) -> str:
    """Return what kube-scheduler 1.37 adds to the message of the pod; "1 victims" is its spelling."""
    victims = len(candidate.victims)
    return f"preemption: found a potential placement for pod on node {candidate.node}, preempting {victims} victims"
