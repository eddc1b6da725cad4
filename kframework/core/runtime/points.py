"""The extension points of a profile, run as kube-scheduler runs them, including how answers and faults are handled.

Every function returns Statuses. An exception in a hook becomes a Status with code Error that names the plugin, its hook
and its distribution; the traceback goes to the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, Hook, PreFilterStep, StatusStep, Step
from kframework.errors import FAULTS, safe_repr
from kframework.framework.answers import (
    ClearNomination,
    Diagnosis,
    GroupProgress,
    Nominate,
    PluginResult,
    Preempt,
    PreemptForGroup,
    RejectedPod,
)
from kframework.framework.cycle_state import CycleState
from kframework.framework.handle import FindNodes
from kframework.objects import GenericPodGroup
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import Rows
from kframework.values.status import Code, Status, Wait

#: Looked up once, as every cycle uses it: finding an enum member takes a tenth of a microsecond.
_SKIP = Code.SKIP

#: The longest that a Permit plugin may hold a pod, in seconds.
MAX_PERMIT_WAIT = 15 * 60.0


def _identity(status: Status) -> Status:
    return status


# -- PreEnqueue ----------------------------------------------------------------------------------------------------


def run_pre_enqueue(profile: Profile, pod: PendingPod) -> Status | None:
    """Return the first rejection to queue the pod, stamped with its plugin; None if there is none."""
    if not profile.has_wrapper("pre_enqueue"):
        for step in profile.pre_enqueue:  # inlined, as every pod comes here
            status = step.call(pod)
            if status is not None:
                return status
        return None
    return profile.run_wrapped("pre_enqueue", lambda: _first_failure(profile.pre_enqueue, pod), _identity, pod)


def _first_failure(steps: Iterable[StatusStep], *arguments: object) -> Status | None:
    """Return the first Status that is not a success."""
    for step in steps:
        status = step.call(*arguments)
        if status is not None:
            return status
    return None


# -- PreFilter -----------------------------------------------------------------------------------------------------


class PreFilterResult(msgspec.Struct, frozen=True):
    """The result of PreFilter for a pod.

    `status`: the rejection or error that ends the attempt, None to continue. `nodes`: the names to filter, None = all;
    `narrowed_by`: the plugins that narrowed them. `skipped`: plugins whose Filter is skipped. `ended_by`: the last
    plugin that ran, if it ended PreFilter.
    """

    status: Status | None = None
    nodes: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()
    ended_by: str = ""

    @property
    def excluded(self) -> Status | None:
        """The rejection of nodes outside the plugins' sets; None if none is excluded."""
        if self.nodes is None:
            return None
        names = " ".join(sorted(self.narrowed_by))
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))


def run_pre_filter(
    steps: Iterable[PreFilterStep], state: CycleState, pod: PendingPod, table: NodeTable
) -> PreFilterResult:
    """Run the plugins in order and combine their answers (kube-scheduler's RunPreFilterPlugins).

    After Unschedulable the later plugins still run, so that preemption finds their state; UnschedulableAndUnresolvable,
    an error, or disjoint sets of nodes end it at once.
    """
    rejection: Status | None = None
    nodes: frozenset[str] | None = None
    narrowed_by: list[str] = []
    skipped: set[str] = set()
    for step in steps:
        answer = step.call(state, pod, table)
        if answer is None:
            continue
        if not isinstance(answer, Status):
            narrowed_by.append(step.name)
            nodes = frozenset(answer) if nodes is None else nodes & answer
            if not nodes:
                none_left = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (format_unsatisfied(narrowed_by),))
                return PreFilterResult(none_left, nodes, tuple(narrowed_by), frozenset(skipped), step.name)
        elif answer.code == _SKIP:
            skipped.add(step.name)
        elif answer.code == Code.UNSCHEDULABLE:
            rejection = answer
        else:
            return PreFilterResult(answer, nodes, (), frozenset(skipped), step.name)
    return PreFilterResult(rejection, nodes, tuple(narrowed_by), frozenset(skipped))


def run_pre_filter_point(profile: Profile, state: CycleState, pod: PendingPod, nodes: NodeTable) -> PreFilterResult:
    arguments = (state, pod, nodes)
    return profile.run_wrapped(
        "pre_filter", lambda: run_pre_filter(profile.pre_filter, *arguments), PreFilterResult, *arguments
    )


def format_unsatisfied(plugins: Iterable[str]) -> str:
    """Return which plugins' node sets are disjoint, in kube-scheduler's words."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


# -- Filter --------------------------------------------------------------------------------------------------------


def filter_node(steps: Iterable[FilterStep], state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    """Return the first rejection of the node by a Filter plugin, None if all accept it."""
    for step in steps:
        status = step.run(state, pod, node)
        if status is not None:
            return status
    return None


def run_add_pod(
    steps: Iterable[FilterStep], state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo
) -> Status | None:
    calls = (step.add_pod(state, pod, other, node) for step in steps if step.add_pod is not None)
    return next(filter(None, calls), None)


def run_remove_pod(
    steps: Iterable[FilterStep], state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo
) -> Status | None:
    calls = (step.remove_pod(state, pod, other, node) for step in steps if step.remove_pod is not None)
    return next(filter(None, calls), None)


# -- PostFilter ----------------------------------------------------------------------------------------------------


class PostFilterAnswer(msgspec.Struct, frozen=True):
    """The result of PostFilter: its Status, and the action to take (None: leave the nomination unchanged)."""

    status: Status
    result: Preempt | Nominate | ClearNomination | None = None


class PostFilterRound:
    """The PostFilter plugins, run in order (kube-scheduler's RunPostFilterPlugins).

    Success and UnschedulableAndUnresolvable end a run with the plugin's own result, an error ends it without one;
    otherwise reasons add up and the last result that changes the nomination is kept. The next run continues after the
    plugin whose result was rejected.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._steps = iter(profile.post_filter)
        self._last_result: PluginResult | None = None
        self._reasons: list[str] = []
        self._rejector = ""

    def run(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> PostFilterAnswer:
        def run_steps() -> PostFilterAnswer:
            for step in self._steps:
                answer = run_post_filter_plugin(self._profile, step, state, pod, diagnosis)
                if answer.status.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                    return answer
                if not answer.status.is_rejected:
                    return PostFilterAnswer(answer.status)
                self.reject_result(answer.status, answer.result)
            return PostFilterAnswer(Status(Code.UNSCHEDULABLE, tuple(self._reasons), self._rejector), self._last_result)

        return self._profile.run_wrapped("post_filter", run_steps, PostFilterAnswer, state, pod, diagnosis)

    def reject_result(self, status: Status, result: PluginResult | None = None) -> None:
        """Record that a plugin's result does not help."""
        self._rejector = self._rejector or status.plugin
        self._reasons += status.reasons
        self._last_result = result or self._last_result


def run_post_filter_plugin(
    profile: Profile, step: Step, state: CycleState, pod: PendingPod, diagnosis: Diagnosis
) -> PostFilterAnswer:
    """Run one PostFilter plugin; None means that it has no proposal."""
    try:
        answer = step.call(state, pod, diagnosis)
    except FAULTS as error:
        return PostFilterAnswer(profile.fault_status(step.name, "post_filter", error))
    if isinstance(answer, Preempt | Nominate | ClearNomination):
        return PostFilterAnswer(answer.status.with_plugin(step.name), answer)
    if answer is None or isinstance(answer, Status):
        return PostFilterAnswer((answer or Status(Code.UNSCHEDULABLE)).with_plugin(step.name))
    problem = f"answered {safe_repr(answer)}, which the contract does not allow"
    return PostFilterAnswer(profile.fault_status(step.name, "post_filter", problem))


def run_pod_group_post_filter(
    profile: Profile,
    group: GenericPodGroup,
    pods: Sequence[PendingPod],
    rejected: Sequence[RejectedPod],
    find_nodes: FindNodes,
) -> PreemptForGroup | Status:
    """Run the PodGroupPostFilter plugins until one does not answer Unschedulable; the reasons of those add up."""
    reasons: list[str] = []
    for step in profile.pod_group_post_filter:
        hook = Hook(step.name, "pod_group_post_filter", profile.fault_status)
        try:
            answer = step.call(group, pods, rejected, find_nodes)
        except FAULTS as error:
            return hook.fault_status(error)
        if isinstance(answer, PreemptForGroup):
            return replace(answer, status=answer.status.with_plugin(step.name))
        running = f'PodGroupPostFilter plugin "{step.name}"'
        allowed = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        status = hook.check_answer(answer, running, allowed)
        if status is None and isinstance(answer, Status):
            return answer.with_plugin(step.name)
        if status is not None and status.code != Code.UNSCHEDULABLE:
            return status
        reasons += () if status is None else status.reasons
    return Status(Code.UNSCHEDULABLE, tuple(reasons))


# -- PreScore ------------------------------------------------------------------------------------------------------


def run_pre_score(
    steps: Iterable[StatusStep], state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows
) -> frozenset[str] | Status:
    """Run the plugins in order; return those that skip scoring, or the error."""
    skipped: set[str] = set()
    for step in steps:
        status = step.call(state, pod, nodes, rows)
        if status is not None:
            if status.code != _SKIP:
                return status
            skipped.add(step.name)
    return frozenset(skipped)


def run_pre_score_point(
    profile: Profile, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows
) -> frozenset[str] | Status:
    arguments = (state, pod, nodes, rows)
    return profile.run_wrapped("pre_score", lambda: run_pre_score(profile.pre_score, *arguments), _identity, *arguments)


# -- Reserve, Permit -----------------------------------------------------------------------------------------------


def run_reserve(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
    """Run Reserve in order; return the first Status that is not a success."""
    arguments = (state, pod, node_name)
    return profile.run_wrapped("reserve", lambda: _first_failure(profile.reserve, *arguments), _identity, *arguments)


def run_unreserve(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> None:
    """Run Unreserve of every plugin in reverse order; a fault is logged and the others still run."""

    def unreserve() -> None:
        for step in profile.unreserve:
            try:
                step.call(state, pod, node_name)
            except FAULTS as error:
                profile.fault_status(step.name, "unreserve", error)

    profile.run_wrapped("unreserve", unreserve, lambda status: None, state, pod, node_name)


def run_placement_feasible(
    steps: Iterable[StatusStep], group: GenericPodGroup, progress: GroupProgress
) -> Status | None:
    """Ask whether a group can still be scheduled; None if no plugin objects.

    The first rejection or error is the answer, else the first wait.
    """
    wait: Status | None = None
    for step in steps:
        status = step.call(group, progress)
        if status is None:
            continue
        if status.code == Code.UNSCHEDULABLE:
            return status
        if status.code != Code.WAIT:
            what = "running" if status.code == Code.ERROR else "unexpected status from"
            return Status(Code.ERROR, (f"{what} PlacementFeasible plugin: {status.message}",), status.plugin)
        wait = wait or status
    return wait


class PermitAnswer(msgspec.Struct, frozen=True):
    """The result of Permit: a Status that stops the pod, or the plugins to wait for with timeouts in seconds."""

    status: Status | None = None
    waits: tuple[tuple[str, float], ...] = ()


_PERMITTED = PermitAnswer()


def run_permit(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> PermitAnswer:
    """Run the Permit plugins in order; a rejection or an error after a wait drops the wait."""
    if not profile.points.get("permit"):
        return _PERMITTED

    def run_steps() -> PermitAnswer:
        waits: list[tuple[str, float]] = []
        for step in profile.permit:
            try:
                answer = step.call(state, pod, node_name)
            except FAULTS as error:
                return PermitAnswer(profile.fault_status(step.name, "permit", error))
            if isinstance(answer, Wait):
                if not isinstance(answer.timeout, int | float) or not answer.timeout > 0:
                    problem = f"answered {safe_repr(answer)}, but a wait takes more than 0 seconds"
                    return PermitAnswer(profile.fault_status(step.name, "permit", problem))
                waits.append((step.name, min(float(answer.timeout), MAX_PERMIT_WAIT)))
                continue
            status = Hook(step.name, "permit", profile.fault_status).check_answer(
                answer, f'Permit plugin "{step.name}"'
            )
            if status is not None:
                return PermitAnswer(status)
        return PermitAnswer(None, tuple(waits))

    return profile.run_wrapped("permit", run_steps, PermitAnswer, state, pod, node_name)
