"""The steps of a profile's extension points: plugin hooks, compiled once, that never raise.

The answer of a hook is checked at the call. An exception or an invalid answer becomes a Status with code Error that
names the plugin, its hook and its distribution; the traceback goes to the log.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Generic, cast

import numpy as np
from typing_extensions import TypeVar

from kframework.core.runtime.hooks import hook_options
from kframework.core.runtime.timing import time_hook
from kframework.errors import FAULTS, safe_repr
from kframework.framework.answers import NodeNames
from kframework.framework.cycle_state import CycleState
from kframework.framework.domain_limits import DomainLimit, reject_rows
from kframework.framework.plugin import Plugin
from kframework.state.nodes import NodeInfo, NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.values.scores import MAX_SCORE, Rows, Scores
from kframework.values.status import REJECTIONS, Code, Skip, Status

Filter = Callable[[CycleState, PendingPod, NodeInfo], Status | None]
FilterDomains = Callable[[CycleState, PendingPod, NodeTable], Sequence[DomainLimit]]
FilterNodes = Callable[[CycleState, PendingPod, NodeTable, Rows], Scores]
FilterMore = Callable[[CycleState, PendingPod, NodeTable, Rows, Scores], Scores | int | None]
Score = Callable[[CycleState, PendingPod, NodeInfo], int | Status]
ScoreNodes = Callable[[CycleState, PendingPod, NodeTable, Rows], Scores | int]
Normalize = Callable[[CycleState, PendingPod, Scores], Scores | int]
AddRemove = Callable[[CycleState, PendingPod, PodInfo, NodeInfo], Status | None]

#: Converts an exception or the problem of an answer into a Status that names the plugin and its hook.
FaultHandler = Callable[[str, str, BaseException | str], Status]

#: The answer of one plugin's `pre_filter`: None, a Status, or the names of the nodes to filter.
PreFilterAnswer = Status | NodeNames | None

#: A hook with any signature.
AnyHook = Callable[..., object]

T = TypeVar("T")
_C = TypeVar("_C", bound=AnyHook, default=AnyHook, covariant=True)

#: Looked up once: finding an enum member takes a tenth of a microsecond.
_SUCCESS = Code.SUCCESS


class Hook:
    """One hook of one plugin, as named in error messages."""

    def __init__(self, plugin: str, name: str, fault: FaultHandler) -> None:
        self.plugin = plugin
        self.name = name
        self._fault_status = fault

    def fault_status(self, error: BaseException | str) -> Status:
        return self._fault_status(self.plugin, self.name, error)

    def check_answer(self, answer: object, running: str, allowed: Container[Code] = REJECTIONS) -> Status | None:
        """Return the checked answer: None = success, an allowed code unchanged, others as an error of `running`."""
        if answer is None:
            return None
        if not isinstance(answer, Status):
            return self.fault_status(f"answered {safe_repr(answer)}, which is not a Status")
        if answer.code == _SUCCESS:
            return None
        if answer.code in allowed:
            return answer.with_plugin(self.plugin)
        text = f"running {running}: {answer.message or answer.code.title}"
        return Status(Code.ERROR, (text,), self.plugin)

    def safe_call(
        self, call: Callable[..., object], check: Callable[[object], T], unchecked: Status | None = None
    ) -> Callable[..., T | Status | None]:
        """Return the hook as a function that never raises and checks all answers but None and `unchecked`."""

        def safe_call(*arguments: object) -> T | Status | None:
            try:
                answer = call(*arguments)
            except FAULTS as error:
                return self.fault_status(error)
            return unchecked if answer is unchecked else None if answer is None else check(answer)

        return safe_call


class Step(Generic[_C]):
    """One plugin's part in one extension point."""

    __slots__ = ("call", "name", "plugin")

    def __init__(self, plugin: Plugin, call: _C) -> None:
        self.name: str = plugin.name
        self.plugin: Plugin = plugin
        self.call: _C = call

    def with_timing(self, hook: str) -> Step[_C]:
        return Step(self.plugin, time_hook(hook, self.name, self.call))

    def with_fixed_answer(self, answer: object) -> Step[_C]:
        """Return a step that returns this answer without calling the plugin."""
        return Step(self.plugin, cast("_C", lambda *arguments: answer))


#: Steps that return None or a checked Status, or an answer of `pre_filter`; neither raises.
StatusStep = Step[Callable[..., Status | None]]
PreFilterStep = Step[Callable[..., PreFilterAnswer]]


def status_step(step: Step, hook: Hook, title: str, allowed: Container[Code] = REJECTIONS) -> StatusStep:
    """Return a step that answers None, an allowed Status or an error."""
    running = f'{title} plugin "{hook.plugin}"'
    unchecked = Skip if allowed == (Code.SKIP,) else None
    check = partial(hook.check_answer, running=running, allowed=allowed)
    return Step(step.plugin, hook.safe_call(step.call, check, unchecked))


def pre_filter_step(step: Step, hook: Hook) -> PreFilterStep:
    """Return a step that accepts the answers of `pre_filter`."""
    allowed = (Code.SKIP, Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    running = f'PreFilter plugin "{hook.plugin}"'

    def check(answer: object) -> PreFilterAnswer:
        if isinstance(answer, (frozenset, set)):  # a union type built at each call costs 0.2 us
            return frozenset(answer)
        return hook.check_answer(answer, running, allowed)

    return Step(step.plugin, hook.safe_call(step.call, check, Skip))


#: NumPy's one instance: to compare two takes a third of a microsecond.
_INT64 = np.dtype(np.int64)


def as_column(answer: object, length: int) -> Scores:
    """Return a columnar form's answer, or its one integer for all, as int64; raise TypeError for anything else."""
    if type(answer) is int:
        return np.full(length, answer, dtype=np.int64)
    if type(answer) is np.ndarray and answer.dtype is _INT64 and answer.shape == (length,):
        return answer
    column = np.asarray(answer)
    if column.shape != (length,) or not np.can_cast(column.dtype, np.int64):
        array = f"an array of {column.dtype} and shape {column.shape}"
        text = array if isinstance(answer, np.ndarray) else safe_repr(answer)
        raise TypeError(f"answered {text} for {length} rows; return an integer for each, in their order")
    return column.astype(np.int64, copy=False)


class FilterStep:
    """A Filter plugin: its position in the configured order and both forms of its hook.

    `run` always works, in the scalar form if the plugin has one (`scalar`), else through the columnar one, and never
    raises; `call` is the same unchecked, for loops that cannot afford the extra call. `run_rows` is None for a plugin
    without the columnar form and the one by domain, `limits` for one without the latter, `more` for one that does not
    count like pods; all may raise. `add_pod` and `remove_pod` are None if `pre_filter` stores nothing that a what-if
    changes.
    """

    __slots__ = (
        *("_explain", "_hook", "_running", "add_pod", "call", "fault_status", "limits", "more"),
        *("name", "order", "plugin", "remove_pod", "run", "run_rows", "scalar"),
    )

    def __init__(self, plugin: Plugin, order: int, fault: FaultHandler) -> None:
        name = plugin.name
        self.name: str = name
        self.plugin: Plugin = plugin
        self.order: int = order
        self.fault_status = fault
        self._hook = Hook(name, "filter", fault)
        self._running = f'"{name}" filter plugin'
        self.limits: FilterDomains | None = cast("FilterDomains | None", find_hook(plugin, "filter_domains"))
        self.run_rows: FilterNodes | None = (
            cast("FilterNodes | None", find_hook(plugin, "filter_nodes"))
            if self.limits is None
            else self._reject_by_domain
        )
        self.more: FilterMore | None = cast("FilterMore | None", find_hook(plugin, "filter_more"))
        self._explain = cast("Callable[[PendingPod, int], object]", find_hook(plugin, "filter_status"))
        scalar = find_hook(plugin, "filter")
        self.scalar: bool = scalar is not None
        self.call: Callable[[CycleState, PendingPod, NodeInfo], object] = scalar or self.run_row
        self.run: Filter = self._safe_call(self.call)
        self.add_pod: AddRemove | None = self._find_extension("add_pod", "AddPod")
        self.remove_pod: AddRemove | None = self._find_extension("remove_pod", "RemovePod")

    def _safe_call(self, call: Callable[[CycleState, PendingPod, NodeInfo], object]) -> Filter:
        def safe_call(state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            try:
                answer = call(state, pod, node)
            except FAULTS as error:
                return self.fault_status(self.name, "filter", error)
            return None if answer is None else self.check_answer(answer)

        return safe_call

    def check_answer(self, answer: object) -> Status | None:
        """Return the answer of `call`, None for success; anything but a rejection is an error."""
        return self._hook.check_answer(answer, self._running)

    def _find_extension(self, hook: str, title: str) -> AddRemove | None:
        call = find_hook(self.plugin, hook)
        if call is None:
            return None
        checked, running = Hook(self.name, hook, self.fault_status), f'{title} on PreFilter plugin "{self.name}"'
        return checked.safe_call(call, lambda answer: checked.check_answer(answer, running, ()))

    def _reject_by_domain(self, state: CycleState, pod: PendingPod, nodes: NodeTable, rows: Rows) -> Scores:
        assert self.limits is not None
        limits = self.limits(state, pod, nodes)
        return reject_rows(limits, rows, len(nodes.positions[rows]))

    def run_row(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> object:
        """Run the columnar form on one node; it may raise."""
        assert self.run_rows is not None
        bits = int(as_column(self.run_rows(state, pod, node.table, np.array([node.row])), 1)[0])
        return self._explain(pod, bits) if bits else None

    def explain(self, pod: PendingPod, bits: int) -> Status:
        """Return the Status for reason bits of the columnar form; an error in the plugin is a fault."""
        try:
            status = self._explain(pod, bits)
        except FAULTS as error:
            return self.fault_status(self.name, "filter_status", error)
        if isinstance(status, Status) and status.is_rejected:
            return status.with_plugin(self.name)
        return self.fault_status(self.name, "filter_status", f"answered {safe_repr(status)}, which is not a rejection")

    def with_timing(self, hook: str) -> FilterStep:
        timed = copy.copy(self)
        timed.call = time_hook(hook, self.name, self.call)
        timed.run = self._safe_call(timed.call)
        timed.run_rows = None if self.run_rows is None else time_hook(hook, self.name, self.run_rows)
        timed.limits = None if self.limits is None else time_hook(hook, self.name, self.limits)
        return timed


class ScoreStep:
    """A Score plugin with its weight.

    `run` returns an integer or an error Status, and never raises; `call` and `run_rows` are unchecked and may raise.
    `normalize` is None if raw scores are final and so must lie within `lowest` and `highest`.
    """

    __slots__ = (
        *("call", "fault_status", "highest", "lowest"),
        *("name", "normalize", "plugin", "run", "run_rows", "scalar", "weight"),
    )

    def __init__(self, plugin: Plugin, weight: int, fault: FaultHandler) -> None:
        self.name: str = plugin.name
        self.plugin: Plugin = plugin
        self.weight: int = weight
        self.fault_status = fault
        self.run_rows: ScoreNodes | None = cast("ScoreNodes | None", find_hook(plugin, "score_nodes"))
        self.normalize: Normalize | None = cast("Normalize | None", find_hook(plugin, "normalize_score"))
        self.lowest: float = 0 if self.normalize is None else -math.inf
        self.highest: float = MAX_SCORE if self.normalize is None else math.inf
        scalar = find_hook(plugin, "score")
        self.scalar: bool = scalar is not None
        self.call: Callable[[CycleState, PendingPod, NodeInfo], object] = scalar or self.run_row
        self.run: Score = self._safe_call(self.call)

    def _safe_call(self, call: Callable[..., object]) -> Score:
        lowest, highest = self.lowest, self.highest

        def safe_call(state: CycleState, pod: PendingPod, node: NodeInfo) -> int | Status:
            try:
                score = call(state, pod, node)
            except FAULTS as error:
                return self.fault_status(self.name, "score", error)
            return score if type(score) is int and lowest <= score <= highest else self.invalid_score(score)

        return safe_call

    def run_row(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        """Run the columnar form on one node; it may raise."""
        assert self.run_rows is not None
        return int(as_column(self.run_rows(state, pod, node.table, np.array([node.row])), 1)[0])

    def invalid_score(self, score: object) -> Status:
        """Return the error for a score that is not an integer or out of range, the latter in kube-scheduler's words."""
        if type(score) is not int:
            remedy = "return one, from 0 to 100"
            return self.fault_status(
                self.name, "score", f"answered {safe_repr(score)}, which is not an integer; {remedy}"
            )
        remedy = "keep it within 0 and 100, or scale the scores of all nodes in normalize_score"
        self.fault_status(self.name, "score", f"the final score is {score}; {remedy}")
        problem = f"returns an invalid score {score}, it should in the range of [0, 100] after normalizing"
        text = f'applying score defaultWeights on Score plugins: plugin "{self.name}" {problem}'
        return Status(Code.ERROR, (text,), self.name)

    def normalize_scores(self, state: CycleState, pod: PendingPod, raw: Scores) -> Scores | int | Status:
        """Normalise the candidates' scores: returns one score each, one for all, or the error."""
        assert self.normalize is not None
        try:
            answer = self.normalize(state, pod, raw)
            scores = answer if type(answer) is int else as_column(answer, len(raw))
            if isinstance(scores, int):
                return scores if 0 <= scores <= MAX_SCORE else self.invalid_score(scores)
            # Read as unsigned, negative scores are the largest.
            if np.maximum.reduce(scores.view(np.uint64)) <= MAX_SCORE:
                return scores
        except FAULTS as error:
            return self.fault_status(self.name, "normalize_score", error)
        low = int(scores.min())
        return self.invalid_score(low if low < 0 else int(scores.max()))

    def with_timing(self, hook: str) -> ScoreStep:
        timed = copy.copy(self)
        timed.call = time_hook(hook, self.name, self.call)
        timed.run = self._safe_call(timed.call)
        timed.run_rows = None if self.run_rows is None else time_hook(hook, self.name, self.run_rows)
        timed.normalize = None if self.normalize is None else time_hook("normalize_score", self.name, self.normalize)
        return timed


def find_hook(plugin: Plugin, hook: str) -> Callable[..., object] | None:
    """Return a hook of a plugin; None if it has none, or only wraps the point."""
    options = hook_options(type(plugin), hook)
    if options is None or options.get("wrapper"):
        return None
    return cast("Callable[..., object]", getattr(plugin, hook))
