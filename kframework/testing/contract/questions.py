"""The calls that promises are made of: one plugin, alone in its profile, evaluates pods on a random cluster.

This module checks each answer by itself; the promises check whether answers are consistent.
"""

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
from kframework.testing.alone import SourceValues, profile_of
from kframework.testing.clusters import RandomCluster
from kframework.values.scores import Rows
from kframework.values.status import Code, Status

T = TypeVar("T")

#: The number of changes to a cluster, and of pods, each with a twin, that are evaluated after each.
CHANGES, PODS = 10, 3
_LARGEST_BITS = (1 << 32) - 1


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin with all that it is checked with; see `check_plugin`."""

    plugin: type[Plugin]
    args: Mapping[str, object] = {}
    beside: Sequence[str] = ()
    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    objects: Sequence[ApiObject] = ()
    sources: SourceValues = {}
    examples: int = 12
    seed: int = 0

    def draws(self) -> Iterator[tuple[Random, str]]:
        """List the generators of the examples, each with its name."""
        for example in range(self.examples):
            yield Random(f"{self.seed}/{example}"), f"example {example} of seed {self.seed}"


class Reached(msgspec.Struct):
    """The coverage of the questions: how often each reason, each code, each raw score, and a `Skip` by hook."""

    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    codes: Counter[Code] = msgspec.field(default_factory=Counter)
    scores: Counter[int] = msgspec.field(default_factory=Counter)
    skips: Counter[str] = msgspec.field(default_factory=Counter)
    passes: int = 0


class Answers(msgspec.Struct, frozen=True):
    """A plugin's answers for a pod: `pre_filter` of the whole, then by row a rejection, or else a raw score.

    `drew`: whether it drew from its random generator meanwhile.
    """

    whole: Status | NodeNames | None
    statuses: Mapping[int, Status | None] = {}
    scores: Mapping[int, int] = {}
    drew: bool = False

    def passing(self, rows: Iterable[int]) -> list[int]:
        """Return which of these rows the plugin does not object to."""
        if isinstance(self.whole, Status) and self.whole.code != Code.SKIP:
            return []
        return [row for row in rows if self.statuses.get(row) is None]

    def differences(self, others: Answers) -> Iterator[tuple[int | None, object, object]]:
        """List where two answers differ: the row, None for the whole, and both answers."""
        if self.whole != others.whole:
            yield None, self.whole, others.whole
        for mine, theirs in ((self.statuses, others.statuses), (self.scores, others.scores)):
            for row in (*mine, *theirs):
                if mine.get(row) != theirs.get(row):
                    yield row, mine.get(row), theirs.get(row)


#: Checks a plugin's answers on the current cluster; raises ContractViolation.
Look = Callable[["Questions"], None]


class Questions:
    """One plugin on one cluster, which changes; the pods that are asked about stay the same."""

    def __init__(self, subject: Subject, random: Random, example: str, reached: Reached) -> None:
        self.subject = subject
        self.random = random
        self.reached = reached
        self.cluster: RandomCluster = RandomCluster(
            random, nodes=subject.nodes, pods=subject.pods, objects=subject.objects
        )
        self._use(profile_of(subject.plugin, subject.args, self.cluster.state, subject.sources))
        self.pods: list[PendingPod] = self.cluster.pending(PODS)
        #: The last call.
        self.asking: str = "nothing"
        self._example = example
        self._latest = "at the start"
        self._known: dict[int, Answers] = {}

    def _use(self, profile: Profile) -> None:
        self.profile: Profile = profile
        self.plugin: Plugin = profile.plugins[self.subject.plugin.name]
        self.filter: FilterStep | None = _only(profile.filters)
        self.score: ScoreStep | None = _only(profile.scores)

    @property
    def nodes(self) -> NodeTable:
        """The nodes as they are."""
        return self.cluster.state.nodes

    def anew(self) -> Questions:
        """Return the same questions for an instance made now, with what the first one has seen behind it."""
        twin = copy.copy(self)
        twin._use(profile_of(self.subject.plugin, self.subject.args, self.cluster.state, self.subject.sources))
        twin._known = {}
        return twin

    def change(self, look: Look | None = None) -> None:
        """Change the cluster; in the middle of a what-if, call `look`."""
        self._latest = "after: " + self.cluster.change(lambda: look(self) if look is not None else None)
        self._known = {}

    # -- asking ----------------------------------------------------------------------------------------------------

    def has(self, hook: str) -> bool:
        """Return whether the plugin has a hook."""
        return find_hook(self.plugin, hook) is not None

    def ask(self, hook: str, pod: PendingPod, call: Callable[..., T], *arguments: object) -> T:
        """Call something on behalf of a hook; what it raises is a violation."""
        self.asking = f"{hook} of pod {pod.key}"
        try:
            return call(*arguments)
        except ContractViolation:
            raise
        except Exception as error:
            self.violated(hook, pod, f"raises {format_error(error)}", "a hook answers; it does not raise", cause=error)

    def said(self, hook: str, pod: PendingPod, *arguments: object) -> object:
        """Call a hook of the plugin itself, without checks, or its columnar form for one row."""
        call = find_hook(self.plugin, hook)
        if call is None:
            step = self.filter if hook == "filter" else self.score
            assert step is not None
            call = step.run_row
        return self.ask(hook, pod, call, *arguments)

    def answers(self, pod: PendingPod) -> Answers:
        """Return the plugin's cached answers for every node of the current cluster."""
        known = self._known.get(id(pod))  # pods of one template may have one uid too
        if known is None:
            known = self._known[id(pod)] = self.answers_given(pod, self.nodes, self.nodes.order)
        return known

    def answers_given(self, pod: PendingPod, given: NodeTable, scored: NDArray[np.int64]) -> Answers:
        """Evaluate every node in the scalar form, or one row at a time if there is none.

        `pre_filter` is `given` these nodes, `pre_score` those of the rows `scored` that pass, all that pass if none
        of them does.
        """
        drawn = self.plugin.handle.random.getstate()
        state, rows = CycleState(), self.nodes.order.tolist()
        whole = self.asked_whole(state, pod, given)
        statuses: dict[int, Status | None] = {}
        scores: dict[int, int] = {}
        if not isinstance(whole, Status) or whole.code == Code.SKIP:
            if self.filter is not None and not isinstance(whole, Status):
                statuses = {row: self.asked_filter(state, pod, row) for row in rows}
            passing = [row for row in rows if statuses.get(row) is None]
            given_to_score = [row for row in scored.tolist() if row in passing] or passing
            if self.score is not None and passing and not self._skips_score(state, pod, rows_of(given_to_score)):
                scores = {row: self._asked_score(state, pod, row) for row in passing}
        return Answers(whole, statuses, scores, self.plugin.handle.random.getstate() != drawn)

    def prepared(self, pod: PendingPod, given: NodeTable, scored: NDArray[np.int64]) -> CycleState:
        """Return the state that `pre_filter` and `pre_score` make, given these."""
        state = CycleState()
        self.asked_whole(state, pod, given)
        self._skips_score(state, pod, scored)
        return state

    def asked_whole(self, state: CycleState, pod: PendingPod, given: NodeTable) -> Status | NodeNames | None:
        """Call `pre_filter`; None if there is none."""
        if not self.has("pre_filter"):
            return None
        answer = self.said("pre_filter", pod, state, pod, given)
        if answer is None or isinstance(answer, set | frozenset):
            return answer
        if not isinstance(answer, Status):
            remedy = "answer None, Skip, a rejection or the names of nodes"
            self.violated("pre_filter", pod, f"answers {answer!r}, which is no Status", remedy)
        if answer.code == Code.SUCCESS:
            return None
        if answer.code == Code.SKIP:
            self.reached.skips["pre_filter"] += 1
        elif not answer.is_rejected:
            self.violated("pre_filter", pod, f"answers {answer}, which is no rejection", _REJECT)
        else:
            self._count(answer)
        return answer

    def asked_filter(self, state: CycleState, pod: PendingPod, row: int) -> Status | None:
        """Filter one node; None if the plugin accepts it."""
        status = self._rejection("filter", pod, self.said("filter", pod, state, pod, self.nodes[row]))
        if status is None:
            self.reached.passes += 1
        else:
            self._count(status)
        return status

    def explained(self, pod: PendingPod, bits: int) -> Status | None:
        """Put bits of `filter_nodes` into words, as the plugin does."""
        if not 0 <= bits <= _LARGEST_BITS:
            answered = f"answers {bits}, which is more than 32 bits"
            self.violated("filter_nodes", pod, answered, "use the lowest 32 bits for reasons")
        if not bits:
            return None
        return self._rejection("filter_status", pod, self.said("filter_status", pod, pod, bits))

    def columns(self, pod: PendingPod) -> Iterator[tuple[str, str, Iterator[tuple[int, int]]]]:
        """Call the columnar forms with the rows of the pod's answers in several ways: hook, way, answers."""
        answers = self.answers(pod)
        if not answers.statuses and not answers.scores:
            return
        state = self.prepared(pod, self.nodes, rows_of(answers.scores))
        if self.filter is not None and self.filter.run_rows is not None and answers.statuses:
            for way, rows in self._ways(list(answers.statuses)):
                bits = self.ask("filter_nodes", pod, self.filter.run_rows, state, pod, self.nodes, rows)
                yield "filter_nodes", way, self.column("filter_nodes", pod, rows, bits)
        if self.score is not None and self.score.run_rows is not None and answers.scores:
            for way, rows in self._ways(list(answers.scores)):
                scores = self.ask("score_nodes", pod, self.score.run_rows, state, pod, self.nodes, rows)
                yield "score_nodes", way, self.column("score_nodes", pod, rows, scores)

    def column(self, hook: str, pod: PendingPod, rows: Rows, answer: object) -> Iterator[tuple[int, int]]:
        """Pair the rows with the answers of a columnar form."""
        listed = list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()
        if isinstance(answer, int) and hook != "filter_nodes":
            answer = np.full(len(listed), answer)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iub" or answer.shape != (len(listed),):
            answered = f"answers {answer!r}, which is not one integer for each of {len(listed)} rows"
            self.violated(hook, pod, answered, "return an integer array as long as `rows`, in their order")
        return zip(listed, answer.tolist(), strict=True)

    def _count(self, rejection: Status) -> None:
        self.reached.reasons.update(rejection.reasons)
        self.reached.codes[rejection.code] += 1

    def _rejection(self, hook: str, pod: PendingPod, status: object) -> Status | None:
        if status is None or (isinstance(status, Status) and status.code == Code.SUCCESS):
            return None
        if not isinstance(status, Status) or not status.is_rejected:
            self.violated(hook, pod, f"answers {status!r}, which is no rejection", _REJECT)
        return status.with_plugin("")

    def _skips_score(self, state: CycleState, pod: PendingPod, rows: NDArray[np.int64]) -> bool:
        if not self.has("pre_score"):
            return False
        answer = self.said("pre_score", pod, state, pod, self.nodes, rows)
        if answer is None or answer == Status(Code.SUCCESS):
            return False
        if not isinstance(answer, Status) or answer.code != Code.SKIP:
            answered = f"answers {answer!r}, which is not Skip"
            self.violated("pre_score", pod, answered, "answer None or Skip: a pod that comes so far is not rejected")
        self.reached.skips["pre_score"] += 1
        return True

    def _asked_score(self, state: CycleState, pod: PendingPod, row: int) -> int:
        score = self.said("score", pod, state, pod, self.nodes[row])
        if type(score) is not int:
            answered = f"answers {score!r} of {type(score).__name__}, which is no int"
            self.violated("score", pod, answered, "return an int: round a fraction")
        self.reached.scores[score] += 1
        return score

    def _ways(self, rows: list[int]) -> Iterator[tuple[str, Rows]]:
        """List the ways in which rows are handed to a columnar form."""
        start = stop = min(rows)
        while stop in rows:
            stop += 1
        yield "a slice", slice(start, stop)
        yield "row numbers", rows_of(rows)
        yield "shuffled rows", rows_of(self.random.sample(rows, len(rows)))
        yield "one row", rows_of(self.random.sample(rows, 1))

    # -- saying so -------------------------------------------------------------------------------------------------

    def same(self, hook: str, pod: PendingPod, said: Answers, expected: Answers, remedy: str) -> None:
        """Raise if two answers about a pod differ; `hook` describes what was done before the first."""
        for row, mine, theirs in said.differences(expected):
            self.violated(hook, pod, f"{_shown(mine)}, not {_shown(theirs)}", remedy, row=row)

    def violated(
        self,
        hook: str,
        pod: PendingPod,
        answered: str,
        remedy: str,
        *,
        row: int | None = None,
        cause: BaseException | None = None,
    ) -> NoReturn:
        """Raise a violation by what a hook answered."""
        place = f", node {self.nodes[row].name}" if row is not None else ""
        self.broken(f"{hook} of pod {pod.key}{place}", answered, remedy, cause)

    def broken(self, asked: str, answered: str, remedy: str, cause: BaseException | None = None) -> NoReturn:
        """Raise a violation."""
        when = f"{self._example}, {self._latest}"
        raise ContractViolation(
            type(self.plugin), asked=asked, answered=answered, remedy=remedy, when=when, cause=cause
        ) from cause


_REJECT = "answer None, or a rejection: unschedulable(...) or unresolvable(...)"


def on_random_clusters(
    subject: Subject, look: Look, *, amid: Look | None = None, at_last: Look | None = None
) -> Reached:
    """Look at a plugin on one random cluster after the other, again after each of many changes.

    Calls `amid` within what-ifs, and `at_last` after the last change. Returns which hooks were reached; raises
    ContractViolation, and ConfigError for a plugin that cannot be loaded.
    """
    reached = Reached()
    for random, example in subject.draws():
        questions = Questions(subject, random, example, reached)
        for _ in range(CHANGES):
            look(questions)
            questions.change(amid)
        if at_last is not None:
            at_last(questions)
    return reached


def rows_of(rows: Iterable[int]) -> NDArray[np.int64]:
    """Return row numbers as a columnar form is given them."""
    return np.fromiter(rows, dtype=np.int64)


def _shown(answer: object) -> str:
    return "nothing against it" if answer is None else str(answer)


def _only(steps: tuple[T, ...]) -> T | None:
    return steps[0] if steps else None


class ContractViolation(AssertionError):
    """Raised when a plugin breaks the contract.

    `asked` describes the call, with its pod and node, `answered` the result and the expected one, `remedy` what to
    change; `when` names the random cluster, and its latest change.
    """

    def __init__(
        self,
        plugin: type[Plugin],
        *,
        asked: str,
        answered: str,
        remedy: str,
        when: str,
        cause: BaseException | None = None,
    ) -> None:
        self.plugin: str = plugin.name
        self.asked = asked
        self.answered = answered
        self.remedy = remedy
        self.when = when
        self._place = plugin, _hook(plugin, f"{asked} {remedy}"), cause or answered
        super().__init__(plugin.name, asked, answered, remedy, when)

    @property
    def where(self) -> str:
        """The file and line of the hook that was asked or is to be changed; of the class if that is none."""
        return source_location(*self._place)

    def __str__(self) -> str:
        lines = {"asked": self.asked, "answered": self.answered, "to change": self.remedy, "where": self.where}
        told = (f"  {title + ':':<10} {text}" for title, text in (lines | {"when": self.when}).items() if text)
        return "\n".join([f"{self.plugin} breaks the contract", *told])


def _hook(plugin: type[Plugin], text: str) -> str:
    """Return the first word that is a hook of the plugin, or ""."""
    hooks = marked_hooks(plugin)
    return next((word for word in re.findall(r"\w+", text) if word in hooks), "")
