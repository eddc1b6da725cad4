"""The extension points of a profile, run as kube-scheduler runs them: what each answer does and what a fault becomes.

Every function answers with Statuses. An exception in a hook becomes a Status with code Error that names the plugin, its
hook and its distribution; the traceback goes to the log.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from kframework.core.runtime.profile import FilterStep, Profile, ScoreStep, Step
from kframework.errors import PluginError
from kframework.framework.answers import ClearNomination, Diagnosis, NodeNames, Nominate, PluginResult, Preempt
from kframework.framework.cycle_state import CycleState
from kframework.framework.status import Code, Status, Wait
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo

_R = TypeVar("_R")

_log = logging.getLogger(__name__)

#: Looked up once, for what is asked in every cycle: an enumeration takes a tenth of a microsecond to find a member.
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP

#: The longest that a Permit plugin may hold a pod, in seconds.
MAX_PERMIT_WAIT = 15 * 60.0

#: What one plugin's `pre_filter` or `pre_score` said: None or a Status; `pre_filter` may also name nodes.
PreFilterAnswer = Status | NodeNames | None


def fault(profile: Profile, plugin: str, hook: str, error: BaseException | str) -> Status:
    """Turn an exception or a wrong answer of a hook into a Status that names the culprit; log the traceback."""
    problem = profile.fault(plugin, hook, error)
    _log.error("%s", problem, exc_info=error if isinstance(error, BaseException) else None)
    return Status(Code.ERROR, (str(problem),), plugin)


def _no_status(profile: Profile, plugin: str, hook: str, answer: object) -> Status:
    return fault(profile, plugin, hook, f"answered {answer!r}, which is no Status")


def _failure(text: str, status: Status, plugin: str) -> Status:
    """Return the error that a Status becomes where it is neither consent nor rejection."""
    return Status(Code.ERROR, (f"{text}: {status.message or status.code.title}",), plugin)


def _wrapped(profile: Profile, point: str, failed: Callable[[Status], _R], run: Callable[..., _R], *args: object) -> _R:
    """Run a point inside its wrappers; what one of them does wrong becomes the answer, made by `failed`."""
    try:
        return profile.wrapped(point, run, *args)
    except PluginError as error:
        return failed(fault(profile, error.plugin, point, error.__cause__ or error.message))


def _itself(status: Status) -> Status | None:
    return status


# -- PreEnqueue ----------------------------------------------------------------------------------------------------


def run_pre_enqueue(profile: Profile, pod: PendingPod) -> Status | None:
    """Return the first rejection to queueing the pod, stamped with its plugin; None if there is none."""

    def run(pod: PendingPod) -> Status | None:
        for step in profile.pre_enqueue:
            try:
                status = step.call(pod)
            except Exception as error:
                return fault(profile, step.name, "pre_enqueue", error)
            if status is None:
                continue
            if not isinstance(status, Status):
                return _no_status(profile, step.name, "pre_enqueue", status)
            if status.code != Code.SUCCESS:
                return status.with_plugin(step.name)
        return None

    return _wrapped(profile, "pre_enqueue", _itself, run, pod)


# -- PreFilter -----------------------------------------------------------------------------------------------------


class PreFilterResult(msgspec.Struct, frozen=True):
    """What PreFilter made of a pod as a whole.

    `status`: the rejection or error that ends the attempt, None to go on. `nodes`: the names worth looking at, None =
    all; `narrowed_by` who narrowed them. `skipped`: plugins whose Filter has nothing to say. `ended_by`: the plugin
    behind which none was asked any more.
    """

    status: Status | None = None
    nodes: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()
    ended_by: str = ""


def ask_pre_filter(
    profile: Profile, step: Step, state: CycleState, pod: PendingPod, nodes: NodeTable
) -> PreFilterAnswer:
    """Ask one plugin's `pre_filter`; a fault is an answer too."""
    try:
        answer = step.call(state, pod, nodes)
    except Exception as error:
        return fault(profile, step.name, "pre_filter", error)
    if answer is None or isinstance(answer, frozenset):
        return answer
    if isinstance(answer, set):
        return frozenset(answer)
    if not isinstance(answer, Status):
        return _no_status(profile, step.name, "pre_filter", answer)
    return None if answer.code == _SUCCESS else answer


def run_pre_filter(profile: Profile, steps: Iterable[Step], ask: Callable[[Step], PreFilterAnswer]) -> PreFilterResult:
    """Ask the plugins in order and sum up what they said (kube-scheduler's RunPreFilterPlugins).

    Unschedulable is remembered while the later plugins still run, so that preemption finds their state;
    UnschedulableAndUnresolvable, an error, or sets of nodes that have none in common end it at once.
    """
    rejection: Status | None = None
    nodes: frozenset[str] | None = None
    narrowed_by: list[str] = []
    skipped: set[str] = set()
    for step in steps:
        answer = ask(step)
        if answer is None:
            continue
        if not isinstance(answer, Status):
            narrowed_by.append(step.name)
            nodes = frozenset(answer) if nodes is None else nodes & answer
            if not nodes:
                none_left = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (unsatisfied(narrowed_by),))
                return PreFilterResult(none_left, nodes, tuple(narrowed_by), frozenset(skipped), step.name)
        elif answer.code == _SKIP:
            skipped.add(step.name)
        elif answer.code == Code.UNSCHEDULABLE:
            rejection = answer.with_plugin(step.name)
        elif answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFilterResult(answer.with_plugin(step.name), nodes, (), frozenset(skipped), step.name)
        elif answer.code == Code.ERROR and answer.plugin:
            return PreFilterResult(answer, nodes, (), frozenset(skipped), step.name)
        else:
            failed = _failure(f'running PreFilter plugin "{step.name}"', answer, step.name)
            return PreFilterResult(failed, nodes, (), frozenset(skipped), step.name)
    return PreFilterResult(rejection, nodes, tuple(narrowed_by), frozenset(skipped))


def unsatisfied(plugins: Iterable[str]) -> str:
    """Say which plugins' node sets have nothing in common, as kube-scheduler does."""
    names = sorted(plugins)
    if len(names) == 1:
        return f"node(s) didn't satisfy plugin {names[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"


def excluded_status(pre_filter_result: PreFilterResult) -> Status:
    """Return what stands against a node that the plugins' sets leave out."""
    names = " ".join(sorted(pre_filter_result.narrowed_by))
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))


# -- Filter --------------------------------------------------------------------------------------------------------


def run_filter(profile: Profile, step: FilterStep, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
    """Ask one Filter plugin about one node; None if it passes.

    A Status that is no rejection is a fault.
    """
    try:
        status = step.ask(state, pod, node)
    except Exception as error:
        return fault(profile, step.name, "filter", error)
    return None if status is None else filter_status(profile, step, status)


def filter_status(profile: Profile, step: FilterStep, status: Status) -> Status | None:
    """Check what a Filter plugin answered, and put the plugin's name on it."""
    if not isinstance(status, Status):
        return _no_status(profile, step.name, "filter", status)
    if status.rejected:
        return status.with_plugin(step.name)
    if status.code == Code.SUCCESS:
        return None
    return _failure(f'running "{step.name}" filter plugin', status, step.name)


def run_add_pod(
    profile: Profile, steps: Iterable[FilterStep], state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo
) -> Status | None:
    """Tell the plugins that a pod was put on a node; None if all took it in."""
    calls = [(step.name, step.add_pod) for step in steps if step.add_pod is not None]
    return _run_extension(profile, "add_pod", "AddPod", calls, (state, pod, other, node))


def run_remove_pod(
    profile: Profile, steps: Iterable[FilterStep], state: CycleState, pod: PendingPod, other: PodInfo, node: NodeInfo
) -> Status | None:
    """Tell the plugins that a pod was taken off a node; None if all took it in."""
    calls = [(step.name, step.remove_pod) for step in steps if step.remove_pod is not None]
    return _run_extension(profile, "remove_pod", "RemovePod", calls, (state, pod, other, node))


def _run_extension(
    profile: Profile,
    hook: str,
    title: str,
    calls: Iterable[tuple[str, Callable[..., Status | None]]],
    arguments: tuple[object, ...],
) -> Status | None:
    for name, call in calls:
        try:
            status = call(*arguments)
        except Exception as error:
            return fault(profile, name, hook, error)
        if status is None:
            continue
        if not isinstance(status, Status):
            return _no_status(profile, name, hook, status)
        if status.code != Code.SUCCESS:
            return _failure(f'running {title} on PreFilter plugin "{name}"', status, name)
    return None


# -- PostFilter ----------------------------------------------------------------------------------------------------


class PostFilterAnswer(msgspec.Struct, frozen=True):
    """What PostFilter found: its Status, and what to do about it (None: leave the nomination as it is)."""

    status: Status
    result: Preempt | Nominate | ClearNomination | None = None


def run_post_filter(profile: Profile, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> PostFilterAnswer:
    """Ask the PostFilter plugins in order for a way out (kube-scheduler's RunPostFilterPlugins).

    Success and UnschedulableAndUnresolvable end the search with the plugin's own result, an error ends it without one;
    otherwise reasons add up and the last result that changes the nomination is kept.
    """
    return PostFilterRound(profile).run(state, pod, diagnosis)


class PostFilterRound:
    """One round of the PostFilter plugins, which goes on where it ended if what it found comes to nothing."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._steps = iter(profile.post_filter)
        self._kept: PluginResult | None = None
        self._reasons: list[str] = []
        self._rejector = ""

    def run(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> PostFilterAnswer:
        """Ask the plugins that have not been asked yet."""
        return _wrapped(self._profile, "post_filter", PostFilterAnswer, self._run, state, pod, diagnosis)

    def _run(self, state: CycleState, pod: PendingPod, diagnosis: Diagnosis) -> PostFilterAnswer:
        for step in self._steps:
            try:
                answer = step.call(state, pod, diagnosis)
            except Exception as error:
                return PostFilterAnswer(fault(self._profile, step.name, "post_filter", error))
            status, result = _post_filter_parts(self._profile, step, answer)
            if status.code in (Code.SUCCESS, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                return PostFilterAnswer(status.with_plugin(step.name), result)
            if not status.rejected:
                return PostFilterAnswer(status.with_plugin(step.name))
            self.refused(status.with_plugin(step.name), result)
        return PostFilterAnswer(Status(Code.UNSCHEDULABLE, tuple(self._reasons), self._rejector), self._kept)

    def refused(self, status: Status, result: PluginResult | None = None) -> None:
        """Note that a plugin found no way out."""
        self._rejector = self._rejector or status.plugin
        self._reasons += status.reasons
        self._kept = result or self._kept


def _post_filter_parts(profile: Profile, step: Step, answer: object) -> tuple[Status, PluginResult | None]:
    if answer is None:
        return Status(Code.UNSCHEDULABLE), None
    if isinstance(answer, Status):
        return answer, None
    if isinstance(answer, Preempt | Nominate | ClearNomination):
        return answer.status, answer
    return fault(profile, step.name, "post_filter", f"answered {answer!r}, which the contract does not know"), None


# -- PreScore, Score -----------------------------------------------------------------------------------------------


def run_pre_score(
    profile: Profile, step: Step, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: object
) -> Status | None:
    """Ask one plugin's `pre_score`: None to score, Skip to leave it out, an error that ends the attempt."""
    try:
        status = step.call(state, pod, nodes, rows)
    except Exception as error:
        return fault(profile, step.name, "pre_score", error)
    if status is None or (isinstance(status, Status) and status.code == _SUCCESS):
        return None
    if not isinstance(status, Status):
        return _no_status(profile, step.name, "pre_score", status)
    if status.code == _SKIP:
        return status
    return _failure(f'running PreScore plugin "{step.name}"', status, step.name)


def run_score(profile: Profile, step: ScoreStep, state: CycleState, pod: PendingPod, node: NodeInfo) -> int | Status:
    """Ask one Score plugin about one node; without normalising the answer must lie in 0..100."""
    try:
        score = step.ask(state, pod, node)
    except Exception as error:
        return fault(profile, step.name, "score", error)
    if type(score) is int and step.lowest <= score <= step.highest:
        return score
    return bad_score(profile, step, score)


def bad_score(profile: Profile, step: ScoreStep, score: object) -> Status:
    """Return the error of a score that is no integer or out of range, the latter in kube-scheduler's words."""
    if isinstance(score, Status):
        return score
    if type(score) is not int:
        return fault(profile, step.name, "score", f"answered {score!r}, which is no integer")
    text = (
        f'plugin "{step.name}" returns an invalid score {score}, it should in the range of [0, 100] after normalizing'
    )
    return Status(Code.ERROR, (f"applying score defaultWeights on Score plugins: {text}",), step.name)


# -- Reserve, Permit -----------------------------------------------------------------------------------------------


def run_reserve(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
    """Let the plugins reserve in order; the first that does not consent is the answer."""

    def run(state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        for step in profile.reserve:
            status = ask_on_node(profile, step, "reserve", "Reserve", state, pod, node_name)
            if status is not None:
                return status
        return None

    return _wrapped(profile, "reserve", _itself, run, state, pod, node_name)


def run_unreserve(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> None:
    """Let every plugin undo its reservation, last first; a fault is logged and stops nobody."""

    def run(state: CycleState, pod: PendingPod, node_name: str) -> None:
        for step in profile.unreserve:
            try:
                step.call(state, pod, node_name)
            except Exception as error:
                fault(profile, step.name, "unreserve", error)

    _wrapped(profile, "unreserve", lambda status: None, run, state, pod, node_name)


def ask_on_node(
    profile: Profile, step: Step, hook: str, title: str, state: CycleState, pod: PendingPod, node_name: str
) -> Status | None:
    """Ask one plugin about the chosen node: None = consent, a rejection as it is, anything else an error."""
    try:
        status = step.call(state, pod, node_name)
    except Exception as error:
        return fault(profile, step.name, hook, error)
    return on_node_status(profile, step, hook, title, status)


def on_node_status(profile: Profile, step: Step, hook: str, title: str, status: object) -> Status | None:
    """Check what a plugin answered about the chosen node."""
    if status is None:
        return None
    if not isinstance(status, Status):
        return _no_status(profile, step.name, hook, status)
    if status.code == Code.SUCCESS:
        return None
    if status.rejected:
        return status.with_plugin(step.name)
    return _failure(f'running {title} plugin "{step.name}"', status, step.name)


class PermitAnswer(msgspec.Struct, frozen=True):
    """What Permit said: a Status that stops the pod, or the plugins to wait for with their timeouts in seconds."""

    status: Status | None = None
    waits: tuple[tuple[str, float], ...] = ()


def _is_number(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not math.isnan(seconds)


def run_permit(profile: Profile, state: CycleState, pod: PendingPod, node_name: str) -> PermitAnswer:
    """Ask the Permit plugins in order; a rejection or an error after a wait drops the wait."""

    def run(state: CycleState, pod: PendingPod, node_name: str) -> PermitAnswer:
        waits: list[tuple[str, float]] = []
        for step in profile.permit:
            try:
                answer = step.call(state, pod, node_name)
            except Exception as error:
                return PermitAnswer(fault(profile, step.name, "permit", error))
            if isinstance(answer, Wait) and _is_number(answer.timeout):
                waits.append((step.name, min(float(answer.timeout), MAX_PERMIT_WAIT)))
                continue
            status = on_node_status(profile, step, "permit", "Permit", answer)
            if status is not None:
                return PermitAnswer(status)
        return PermitAnswer(None, tuple(waits))

    return _wrapped(profile, "permit", PermitAnswer, run, state, pod, node_name)
