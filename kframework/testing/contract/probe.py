"""The calls that promises are made of: one plugin, alone in its profile, evaluates pods on a random cluster."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NoReturn, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.runtime.hooks import marked_hooks, source_location
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, find_hook
from kframework.errors import format_error
from kframework.framework.answers import NodeNames
from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Plugin
from kframework.objects import ApiObject, Node, Pod
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.testing.clusters import RandomCluster
from kframework.testing.single_plugin import SourceValues, build_profile, emulated_gates
from kframework.values.feature_gates import MINORS, FeatureGates
from kframework.values.scores import Rows
from kframework.values.status import Code, Status

T = TypeVar("T")

#: The number of changes to a cluster, and of pods, each with a twin, that are evaluated after each.
CHANGES, PODS = 10, 3
_LARGEST_BITS = (1 << 32) - 1


class PluginUnderTest(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin with all that it is checked with; see `check_plugin`."""

    plugin: type[Plugin]
    args: Mapping[str, object] = {}
    other_plugins: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    objects: Sequence[ApiObject] = ()
    sources: SourceValues = {}
    minors: Sequence[str] = MINORS
    feature_gates: Mapping[str, bool] = {}
    examples: int = 12
    seed: int = 0

    def generators(self) -> Iterator[tuple[Random, FeatureGates, str]]:
        """List the generators of the examples, each with the gates and the name of its example."""
        for example in range(self.examples):
            gates = emulated_gates(self.minors, self.feature_gates, self.seed, example)
            yield Random(f"{self.seed}/{example}"), gates, f"example {example} of seed {self.seed}, {gates.minor}"


class Coverage(msgspec.Struct):
    """The coverage of the answers: how often each reason, each code, each raw score, and a `Skip` by hook."""

    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    codes: Counter[Code] = msgspec.field(default_factory=Counter)
    scores: Counter[int] = msgspec.field(default_factory=Counter)
    skips: Counter[str] = msgspec.field(default_factory=Counter)
    passes: int = 0


class PluginAnswers(msgspec.Struct, frozen=True):
    """A plugin's answers for a pod; `is_random` if it used its random generator meanwhile."""

    pre_filter: Status | NodeNames | None
    statuses: Mapping[int, Status | None] = {}
    scores: Mapping[int, int] = {}
    is_random: bool = False

    def passing_rows(self, rows: Iterable[int]) -> list[int]:
        """Return which of these rows the plugin accepts."""
        if isinstance(self.pre_filter, Status) and self.pre_filter.code != Code.SKIP:
            return []
        return [row for row in rows if self.statuses.get(row) is None]

    def differences(self, others: PluginAnswers) -> Iterator[tuple[int | None, object, object]]:
        """List where two answers differ: the row, None for `pre_filter`, and both answers."""
        if self.pre_filter != others.pre_filter:
            yield None, self.pre_filter, others.pre_filter
        for ours, theirs in ((self.statuses, others.statuses), (self.scores, others.scores)):
            for row in (*ours, *theirs):
                if ours.get(row) != theirs.get(row):
                    yield row, ours.get(row), theirs.get(row)


#: Checks a plugin's answers on the current cluster; raises ContractViolation.
Check = Callable[["PluginProbe"], None]


class PluginProbe:
    """A plugin on a cluster, which changes, with pods to evaluate, which stay the same."""

    def __init__(
        self, subject: PluginUnderTest, random: Random, gates: FeatureGates, example: str, coverage: Coverage
    ) -> None:
        self.subject = subject
        self.random = random
        self.coverage = coverage
        self.cluster: RandomCluster = RandomCluster(
            random, nodes=subject.nodes, pods=subject.pods, objects=subject.objects, gates=gates
        )
        self._build_profile()
        self.pods: list[PendingPod] = self.cluster.pending(PODS)
        #: The last call.
        self.current_call: str = "nothing"
        self._example = example
        self._latest = "at the start"
        self._cache: dict[int, PluginAnswers] = {}

    def _build_profile(self) -> None:
        subject = self.subject
        profile = build_profile(subject.plugin, subject.args, self.cluster.state, subject.sources)
        self.profile: Profile = profile
        self.plugin: Plugin = profile.plugins[subject.plugin.name]
        self.filter: FilterStep | None = _first_or_none(profile.filters)
        self.score: ScoreStep | None = _first_or_none(profile.scores)

    @property
    def nodes(self) -> NodeTable:
        """The nodes as they are."""
        return self.cluster.state.nodes

    def with_new_instance(self) -> PluginProbe:
        """Return the same probe with a new instance of the plugin."""
        twin = copy.copy(self)
        twin._build_profile()
        twin._cache = {}
        return twin

    def change(self, check: Check | None = None) -> None:
        """Change the cluster; in the middle of a what-if, call `check`."""
        self._latest = "after: " + self.cluster.change(lambda: check(self) if check is not None else None)
        self._cache = {}

    # -- calls -----------------------------------------------------------------------------------------------------

    def has(self, hook: str) -> bool:
        """Return whether the plugin has a hook."""
        return find_hook(self.plugin, hook) is not None

    def call_function(self, hook: str, pod: PendingPod, function: Callable[..., T], *arguments: object) -> T:
        """Call a function on behalf of a hook; an exception is a violation."""
        self.current_call = f"{hook} of pod {pod.key}"
        try:
            return function(*arguments)
        except ContractViolation:
            raise
        except Exception as error:
            self.fail_hook(hook, pod, f"raises {format_error(error)}", "a hook answers; it does not raise", cause=error)

    def call_hook(self, hook: str, pod: PendingPod, *arguments: object) -> object:
        """Call a hook of the plugin itself, without checks, or its columnar form for one row."""
        method = find_hook(self.plugin, hook)
        if method is None:
            step = self.filter if hook == "filter" else self.score
            assert step is not None
            method = step.run_row
        return self.call_function(hook, pod, method, *arguments)

    def answers(self, pod: PendingPod) -> PluginAnswers:
        """Return the plugin's cached answers for every node of the current cluster."""
        answers = self._cache.get(id(pod))  # pods of one template may have one uid too
        if answers is None:
            answers = self._cache[id(pod)] = self.evaluate(pod, self.nodes, self.nodes.order)
        return answers

    def evaluate(self, pod: PendingPod, nodes: NodeTable, scored: NDArray[np.int64]) -> PluginAnswers:
        """Evaluate every node, row by row; `pre_filter` gets `nodes`, `pre_score` those `scored` that pass, or all."""
        before = self.plugin.handle.random.getstate()
        state, rows = CycleState(), self.nodes.order.tolist()
        pre_filter = self.call_pre_filter(state, pod, nodes)
        statuses: dict[int, Status | None] = {}
        scores: dict[int, int] = {}
        if not isinstance(pre_filter, Status) or pre_filter.code == Code.SKIP:
            if self.filter is not None and not isinstance(pre_filter, Status):
                statuses = {row: self.call_filter(state, pod, row) for row in rows}
            passing = [row for row in rows if statuses.get(row) is None]
            scored_rows = [row for row in scored.tolist() if row in passing] or passing
            if self.score is not None and passing and not self._is_score_skipped(state, pod, as_rows(scored_rows)):
                scores = {row: self._call_score(state, pod, row) for row in passing}
        return PluginAnswers(pre_filter, statuses, scores, self.plugin.handle.random.getstate() != before)

    def prepare_state(self, pod: PendingPod, nodes: NodeTable, scored: NDArray[np.int64]) -> CycleState:
        """Return the state after `pre_filter` with these nodes and `pre_score` with these rows."""
        state = CycleState()
        self.call_pre_filter(state, pod, nodes)
        self._is_score_skipped(state, pod, scored)
        return state

    def call_pre_filter(self, state: CycleState, pod: PendingPod, nodes: NodeTable) -> Status | NodeNames | None:
        """Call `pre_filter`; None if there is none."""
        if not self.has("pre_filter"):
            return None
        answer = self.call_hook("pre_filter", pod, state, pod, nodes)
        if answer is None or isinstance(answer, set | frozenset):
            return answer
        if not isinstance(answer, Status):
            remedy = "answer None, Skip, a rejection or the names of nodes"
            self.fail_hook("pre_filter", pod, f"answers {answer!r}, which is no Status", remedy)
        if answer.code == Code.SUCCESS:
            return None
        if answer.code == Code.SKIP:
            self.coverage.skips["pre_filter"] += 1
        elif not answer.is_rejected:
            self.fail_hook("pre_filter", pod, f"answers {answer}, which is no rejection", _REJECT)
        else:
            self._count(answer)
        return answer

    def call_filter(self, state: CycleState, pod: PendingPod, row: int) -> Status | None:
        """Filter one node; None if the plugin accepts it."""
        status = self._rejection("filter", pod, self.call_hook("filter", pod, state, pod, self.nodes[row]))
        if status is None:
            self.coverage.passes += 1
        else:
            self._count(status)
        return status

    def decode_status(self, pod: PendingPod, bits: int) -> Status | None:
        """Return the plugin's status for bits of `filter_nodes`."""
        if not 0 <= bits <= _LARGEST_BITS:
            result = f"answers {bits}, which is more than 32 bits"
            self.fail_hook("filter_nodes", pod, result, "use the lowest 32 bits for reasons")
        if not bits:
            return None
        return self._rejection("filter_status", pod, self.call_hook("filter_status", pod, pod, bits))

    def call_columnar_forms(self, pod: PendingPod) -> Iterator[tuple[str, str, Iterator[tuple[int, int]]]]:
        """Call the columnar forms with the rows of the pod's answers in several selections: hook, selection, pairs."""
        answers = self.answers(pod)
        if not answers.statuses and not answers.scores:
            return
        state = self.prepare_state(pod, self.nodes, as_rows(answers.scores))
        if self.filter is not None and self.filter.run_rows is not None and answers.statuses:
            for selection, rows in self._row_selections(list(answers.statuses)):
                bits = self.call_function("filter_nodes", pod, self.filter.run_rows, state, pod, self.nodes, rows)
                yield "filter_nodes", selection, self.pair_rows("filter_nodes", pod, rows, bits)
        if self.score is not None and self.score.run_rows is not None and answers.scores:
            for selection, rows in self._row_selections(list(answers.scores)):
                scores = self.call_function("score_nodes", pod, self.score.run_rows, state, pod, self.nodes, rows)
                yield "score_nodes", selection, self.pair_rows("score_nodes", pod, rows, scores)

    def pair_rows(self, hook: str, pod: PendingPod, rows: Rows, answer: object) -> Iterator[tuple[int, int]]:
        """Pair the rows with the answers of a columnar form."""
        numbers = list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()
        if isinstance(answer, int) and hook != "filter_nodes":
            answer = np.full(len(numbers), answer)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iub" or answer.shape != (len(numbers),):
            result = f"answers {answer!r}, which is not one integer for each of {len(numbers)} rows"
            self.fail_hook(hook, pod, result, "return an integer array as long as `rows`, in their order")
        return zip(numbers, answer.tolist(), strict=True)

    def _count(self, rejection: Status) -> None:
        self.coverage.reasons.update(rejection.reasons)
        self.coverage.codes[rejection.code] += 1

    def _rejection(self, hook: str, pod: PendingPod, status: object) -> Status | None:
        if status is None or (isinstance(status, Status) and status.code == Code.SUCCESS):
            return None
        if not isinstance(status, Status) or not status.is_rejected:
            self.fail_hook(hook, pod, f"answers {status!r}, which is no rejection", _REJECT)
        return status.with_plugin("")

    def _is_score_skipped(self, state: CycleState, pod: PendingPod, rows: NDArray[np.int64]) -> bool:
        if not self.has("pre_score"):
            return False
        answer = self.call_hook("pre_score", pod, state, pod, self.nodes, rows)
        if answer is None or answer == Status(Code.SUCCESS):
            return False
        if not isinstance(answer, Status) or answer.code != Code.SKIP:
            result = f"answers {answer!r}, which is not Skip"
            self.fail_hook("pre_score", pod, result, "answer None or Skip: PreScore cannot reject a pod")
        self.coverage.skips["pre_score"] += 1
        return True

    def _call_score(self, state: CycleState, pod: PendingPod, row: int) -> int:
        score = self.call_hook("score", pod, state, pod, self.nodes[row])
        if type(score) is not int:
            result = f"answers {score!r} of {type(score).__name__}, which is no int"
            self.fail_hook("score", pod, result, "return an int: round a fraction")
        self.coverage.scores[score] += 1
        return score

    def _row_selections(self, rows: list[int]) -> Iterator[tuple[str, Rows]]:
        start = stop = min(rows)
        while stop in rows:
            stop += 1
        yield "a slice", slice(start, stop)
        yield "row numbers", as_rows(rows)
        yield "shuffled rows", as_rows(self.random.sample(rows, len(rows)))
        yield "one row", as_rows(self.random.sample(rows, 1))

    # -- violations ------------------------------------------------------------------------------------------------

    def expect_same(
        self, hook: str, pod: PendingPod, answers: PluginAnswers, expected: PluginAnswers, remedy: str
    ) -> None:
        """Raise if two answers for a pod differ; `hook` describes the calls before the first."""
        for row, ours, theirs in answers.differences(expected):
            self.fail_hook(hook, pod, f"{_format_answer(ours)}, not {_format_answer(theirs)}", remedy, row=row)

    def fail_hook(
        self,
        hook: str,
        pod: PendingPod,
        result: str,
        remedy: str,
        *,
        row: int | None = None,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise a violation by the answer of a hook."""
        node = f", node {self.nodes[row].name}" if row is not None else ""
        self.fail(f"{hook} of pod {pod.key}{node}", result, remedy, cause)

    def fail(self, call: str, result: str, remedy: str, cause: BaseException | None = None) -> NoReturn:
        """Raise a violation."""
        when = f"{self._example}, {self._latest}"
        raise ContractViolation(
            type(self.plugin), call=call, result=result, remedy=remedy, when=when, cause=cause
        ) from cause


_REJECT = "answer None, or a rejection: unschedulable(...) or unresolvable(...)"


def run_check(
    subject: PluginUnderTest, check: Check, *, in_what_if: Check | None = None, afterwards: Check | None = None
) -> Coverage:
    """Check a plugin on one random cluster after the other, again after each of many changes.

    Calls `in_what_if` within what-ifs, and `afterwards` after the last change. Returns the coverage; raises
    ContractViolation, and ConfigError for a plugin that cannot be loaded.
    """
    coverage = Coverage()
    for random, gates, example in subject.generators():
        probe = PluginProbe(subject, random, gates, example, coverage)
        for _ in range(CHANGES):
            check(probe)
            probe.change(in_what_if)
        if afterwards is not None:
            afterwards(probe)
    return coverage


def as_rows(rows: Iterable[int]) -> NDArray[np.int64]:
    """Return row numbers as a columnar form gets them."""
    return np.fromiter(rows, dtype=np.int64)


def _format_answer(answer: object) -> str:
    return "no rejection" if answer is None else str(answer)


def _first_or_none(steps: tuple[T, ...]) -> T | None:
    return steps[0] if steps else None


class ContractViolation(AssertionError):
    """Raised when a plugin breaks the contract.

    `call` describes the call, with its pod and node, `result` the result and the expected one, `remedy` the
    fix; `when` names the random cluster, and its latest change.
    """

    def __init__(
        self,
        plugin: type[Plugin],
        *,
        call: str,
        result: str,
        remedy: str,
        when: str,
        cause: BaseException | None = None,
    ) -> None:
        self.plugin: str = plugin.name
        self.call = call
        self.result = result
        self.remedy = remedy
        self.when = when
        self._location = plugin, _hook(plugin, f"{call} {remedy}"), cause or result
        super().__init__(plugin.name, call, result, remedy, when)

    @property
    def where(self) -> str:
        """The file and line of the hook that was called or must change; of the class if there is none."""
        return source_location(*self._location)

    def __str__(self) -> str:
        fields = {"call": self.call, "result": self.result, "to fix": self.remedy, "where": self.where}
        lines = (f"  {title + ':':<7} {text}" for title, text in (fields | {"when": self.when}).items() if text)
        return "\n".join([f"{self.plugin} breaks the contract", *lines])


def _hook(plugin: type[Plugin], text: str) -> str:
    """Return the first word that is a hook of the plugin, or ""."""
    hooks = marked_hooks(plugin)
    return next((word for word in re.findall(r"\w+", text) if word in hooks), "")
