"""Whether a plugin keeps the contract: its forms agree, what is remembered of it stays true, and it only looks.

    def test_contract():
        reached = check_plugin(FewestPods, args={"maxPodsPerNode": 3})
        assert reached.reasons["node(s) ran 3 pods already"]

The plugin is asked about random pods on random clusters, in every form it has and through the engine's memory, again
after each of many changes of the cluster.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from random import Random
from typing import NoReturn, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.oracle import VerificationError, verify
from kframework.core.cycle.outcome import ScheduleError
from kframework.core.cycle.plan import Layers
from kframework.core.cycle.rotation import Rotation
from kframework.core.cycle.search import Search
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, ScoreStep, method_of
from kframework.errors import in_words
from kframework.framework.answers import MAX_SCORE, NodeNames, Rows
from kframework.framework.cycle_state import CycleState
from kframework.framework.plugin import Plugin
from kframework.framework.status import Code, Status
from kframework.objects import ApiObject, Node, Pod
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, PodInfo
from kframework.testing.alone import SourceValues, profile_of
from kframework.testing.clusters import RandomCluster

T = TypeVar("T")

#: So many changes happen to a cluster, and so many pods, each with a twin, are asked about after each.
_CHANGES, _PODS = 10, 3
_MEMORY = 1 << 20
_LARGEST_BITS = (1 << 32) - 1


class ContractViolation(AssertionError):
    """Raised when a plugin breaks the contract; says which pod, which node, and what the answers were."""


class Reached(msgspec.Struct):
    """What the questions came upon: how often each reason, each code, each raw score, and a `Skip` by hook."""

    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    codes: Counter[Code] = msgspec.field(default_factory=Counter)
    scores: Counter[int] = msgspec.field(default_factory=Counter)
    skips: Counter[str] = msgspec.field(default_factory=Counter)
    passes: int = 0


def check_plugin(
    plugin: type[Plugin],
    *,
    args: Mapping[str, object] | None = None,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[ApiObject] = (),
    sources: SourceValues | None = None,
    examples: int = 12,
    seed: int = 0,
) -> Reached:
    """Ask a plugin about `examples` random clusters; raise ContractViolation where it breaks the contract.

    `args` are spelled as in YAML. `nodes`, `pods` and `objects` (of all other kinds) are mixed into the clusters: give
    some that the plugin is about, and of an object that changes several versions. `sources` is what its sources hold,
    by their names. See from the answer that the questions met every branch of the plugin. The same seed asks the same
    questions. Raises ConfigError for a plugin that cannot be loaded.
    """
    nodes, pods, objects, reached = list(nodes), list(pods), list(objects), Reached()
    for example in range(examples):
        cluster = RandomCluster(Random(f"{seed}/{example}"), nodes=nodes, pods=pods, objects=objects)
        profile = profile_of(plugin, args or {}, cluster.state, sources or {})
        source = f"example {example} of seed {seed}"
        _Check(profile, profile.plugins[plugin.name], cluster, reached, source).run()
    return reached


#: What a plugin says of a pod: `pre_filter` of the whole, then by row a rejection, or else a raw score.
_Answers = tuple[Status | NodeNames | None, dict[int, Status | None], dict[int, int]]


class _Check:
    """The questions about one cluster."""

    def __init__(self, profile: Profile, plugin: Plugin, cluster: RandomCluster, reached: Reached, source: str) -> None:
        self.profile = profile
        self.plugin = plugin
        self.cluster = cluster
        self.nodes: NodeTable = cluster.state.nodes
        self.reached = reached
        self.source = source
        self.latest = "at the start"
        self.random: Random = cluster.random
        self.layers: Layers = Layers(profile, self.nodes, _MEMORY)
        self.has_pre_filter: bool = method_of(plugin, "pre_filter") is not None
        self.filter: FilterStep | None = _only(profile.filters)
        self.has_pre_score: bool = method_of(plugin, "pre_score") is not None
        self.score: ScoreStep | None = _only(profile.scores)

    def run(self) -> None:
        pods = self.cluster.pending(_PODS)
        for _ in range(_CHANGES):
            self._nothing_is_changed(pods, lambda: self._all_is_well(pods))
            self.latest = "after: " + self.cluster.change(lambda: self._memory_is_true(pods))

    def _all_is_well(self, pods: list[PendingPod]) -> None:
        known: dict[Hashable, tuple[PendingPod, _Answers]] = {}
        for pod, twin in zip(pods[::2], pods[1::2], strict=True):
            if self._signature(pod) != self._signature(twin):
                self._violation("sign", pod, "depends on the pod's own names or times; then answer None")
        for pod in pods:
            drawn, signature = self.plugin.handle.random.getstate(), self._signature(pod)
            answers = self._answers(pod, self.nodes, self.nodes.order)
            self._forms_agree(pod, answers)
            if signature is None:
                continue
            self._nodes_given_do_not_matter(pod, answers)
            if self.plugin.handle.random.getstate() != drawn:
                self._violation("sign", pod, "is answered, so nothing may be drawn from handle.random")
            other, same = known.setdefault(signature, (pod, answers))
            self._equal(pod, f"sign: equals that of {other.key}, but the answers differ", answers, same)
        self._memory_is_true(pods)

    # -- the rules -------------------------------------------------------------------------------------------------

    def _signature(self, pod: PendingPod) -> Hashable | None:
        """Return the plugin's own signature of the pod; the same on every call."""
        place = self.profile.index.get(self.plugin.name)
        if place is None:
            return None
        first, second = (self._ask("sign", pod, self.profile.sign, pod).values[place] for _ in range(2))
        if first != second:
            self._violation("sign", pod, f"answers {first!r}, then {second!r}")
        return first

    def _forms_agree(self, pod: PendingPod, answers: _Answers) -> None:
        """Ask the columnar forms about the same rows in several ways."""
        _, statuses, scores = answers
        if not statuses and not scores:
            return
        state = self._prepared(pod, self.nodes, _rows(scores))
        if self.filter is not None and self.filter.ask_rows is not None and statuses:
            for title, rows in self._ways(list(statuses)):
                column = self._ask("filter_nodes", pod, self.filter.ask_rows, state, pod, self.nodes, rows)
                for row, bits in self._column("filter_nodes", pod, rows, column):
                    said = self._explained(pod, bits)
                    if said != statuses[row]:
                        self._differ("filter_nodes", pod, row, f"over {title}", said, statuses[row])
        if self.score is not None and self.score.ask_rows is not None and scores:
            for title, rows in self._ways(list(scores)):
                totals = self._ask("score_nodes", pod, self.score.ask_rows, state, pod, self.nodes, rows)
                for row, score in self._column("score_nodes", pod, rows, totals):
                    if score != scores[row]:
                        self._differ("score_nodes", pod, row, f"over {title}", score, scores[row])
        if self.score is not None and scores:
            self._scores_are_in_range(pod, state, self.score, scores)

    def _scores_are_in_range(self, pod: PendingPod, state: CycleState, step: ScoreStep, scores: dict[int, int]) -> None:
        hook, raw = "score", _rows(scores.values())
        final: object = raw
        if step.normalize is not None:
            hook, given = "normalize_score", raw.copy()
            final = self._ask(hook, pod, step.normalize, state, pod, given)
            if not np.array_equal(given, raw):
                self._violation(hook, pod, "changes the scores that it is given; return new ones")
        for row, score in self._column(hook, pod, _rows(scores), final):
            if not 0 <= score <= MAX_SCORE:
                self._violation(hook, pod, f"node {self.nodes[row].name}: {score} does not lie in 0..{MAX_SCORE}")

    def _nodes_given_do_not_matter(self, pod: PendingPod, answers: _Answers) -> None:
        """Prepare with some of the nodes only, and expect the same answers about all of them."""
        some = self.random.sample(self.nodes.order.tolist(), self.random.randint(1, len(self.nodes)))
        title = "pre_filter or pre_score: given other nodes, the answers differ"
        self._equal(pod, title, self._answers(pod, _part_of(self.nodes, some), np.array(some)), answers)

    def _memory_is_true(self, pods: list[PendingPod]) -> None:
        """Search as the engine does, and ask every remembered answer again."""
        for pod in pods:
            plan = self.layers.plan(self.profile.sign(pod), pod)
            search = Search(self.cluster.state, plan, pod, Rotation(), Random(0))
            outcome = search.run()
            if isinstance(outcome, ScheduleError):
                self._violation("fault", pod, outcome.status.message)
            try:
                verify(search, outcome)
            except VerificationError as error:
                self._violation("memory", pod, f"{error.what}: remembered {error.remembered}, now {error.afresh}")

    def _nothing_is_changed(self, pods: list[PendingPod], ask: Callable[[], None]) -> None:
        before = dict(_sight(self.nodes, pods))
        ask()
        after = dict(_sight(self.nodes, pods))
        changed = [title for title, seen in before.items() if after.get(title) != seen]
        if changed:
            raise ContractViolation(f"{self.plugin.name}: a hook changes {changed[0]} ({self.source}, {self.latest})")
        if self.cluster.state.statements:
            raise ContractViolation(f"{self.plugin.name}: a hook leaves a statement open ({self.source})")

    # -- asking ----------------------------------------------------------------------------------------------------

    def _answers(self, pod: PendingPod, given: NodeTable, scored: NDArray[np.int64]) -> _Answers:
        """Ask about every node in the scalar form, or about one row at a time where there is none.

        `pre_filter` is `given` these nodes, `pre_score` those of the rows `scored` that pass, all that pass if none
        of them does.
        """
        state, rows = CycleState(), self.nodes.order.tolist()
        whole = self._asked_whole(state, pod, given)
        if isinstance(whole, Status) and whole.code != Code.SKIP:
            return whole, {}, {}
        statuses: dict[int, Status | None] = {}
        if self.filter is not None and not isinstance(whole, Status):
            statuses = {row: self._asked_filter(state, pod, row) for row in rows}
        passing = [row for row in rows if statuses.get(row) is None]
        scores: dict[int, int] = {}
        given_to_score = [row for row in scored.tolist() if row in passing] or passing
        if self.score is not None and passing and not self._skips_score(state, pod, _rows(given_to_score)):
            scores = {row: self._asked_score(state, pod, row) for row in passing}
        return whole, statuses, scores

    def _prepared(self, pod: PendingPod, given: NodeTable, scored: NDArray[np.int64]) -> CycleState:
        state = CycleState()
        self._asked_whole(state, pod, given)
        self._skips_score(state, pod, scored)
        return state

    def _asked_whole(self, state: CycleState, pod: PendingPod, given: NodeTable) -> Status | NodeNames | None:
        if not self.has_pre_filter:
            return None
        answer = self._said("pre_filter", pod, state, pod, given)
        if answer is None or isinstance(answer, set | frozenset):
            return answer
        if not isinstance(answer, Status):
            self._violation("pre_filter", pod, f"answers {answer!r}, which is no Status")
        if answer.code == Code.SUCCESS:
            return None
        if answer.code == Code.SKIP:
            self.reached.skips["pre_filter"] += 1
        elif not answer.rejected:
            self._violation("pre_filter", pod, f"answers {answer}, which is no rejection")
        else:
            self._count(answer)
        return answer

    def _asked_filter(self, state: CycleState, pod: PendingPod, row: int) -> Status | None:
        assert self.filter is not None
        node = self.nodes[row]
        status = self._rejection("filter", pod, self._said("filter", pod, state, pod, node))
        if status is None:
            self.reached.passes += 1
        else:
            self._count(status)
        return status

    def _count(self, rejection: Status) -> None:
        self.reached.reasons.update(rejection.reasons)
        self.reached.codes[rejection.code] += 1

    def _explained(self, pod: PendingPod, bits: int) -> Status | None:
        assert self.filter is not None
        if not 0 <= bits <= _LARGEST_BITS:
            self._violation("filter_nodes", pod, f"answers {bits}, which is more than 32 bits")
        if not bits:
            return None
        return self._rejection("filter_status", pod, self._said("filter_status", pod, pod, bits))

    def _rejection(self, hook: str, pod: PendingPod, status: object) -> Status | None:
        if status is None or (isinstance(status, Status) and status.code == Code.SUCCESS):
            return None
        if not isinstance(status, Status) or not status.rejected:
            self._violation(hook, pod, f"answers {status!r}, which is no rejection")
        return status.with_plugin("")

    def _skips_score(self, state: CycleState, pod: PendingPod, rows: NDArray[np.int64]) -> bool:
        if not self.has_pre_score:
            return False
        answer = self._said("pre_score", pod, state, pod, self.nodes, rows)
        if answer is None or answer == Status(Code.SUCCESS):
            return False
        if not isinstance(answer, Status) or answer.code != Code.SKIP:
            self._violation("pre_score", pod, f"answers {answer!r}, which is not Skip")
        self.reached.skips["pre_score"] += 1
        return True

    def _asked_score(self, state: CycleState, pod: PendingPod, row: int) -> int:
        assert self.score is not None
        score = self._said("score", pod, state, pod, self.nodes[row])
        if type(score) is not int:
            self._violation("score", pod, f"answers {score!r} of {type(score).__name__}, which is no int")
        self.reached.scores[score] += 1
        return score

    def _said(self, hook: str, pod: PendingPod, *arguments: object) -> object:
        """Ask a hook as the plugin has it, which checks nothing, or one row of its columnar form."""
        call = method_of(self.plugin, hook)
        if call is None:
            step = self.filter if hook == "filter" else self.score
            assert step is not None
            call = step.ask_one_row
        return self._ask(hook, pod, call, *arguments)

    def _ask(self, hook: str, pod: PendingPod, call: Callable[..., T], *arguments: object) -> T:
        try:
            return call(*arguments)
        except Exception as error:
            self._violation(hook, pod, f"raises {in_words(error)}", error)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _ways(self, rows: list[int]) -> Iterator[tuple[str, Rows]]:
        """List the ways in which rows are handed to a columnar form."""
        start = stop = min(rows)
        while stop in rows:
            stop += 1
        yield "a slice", slice(start, stop)
        yield "row numbers", _rows(rows)
        yield "shuffled rows", _rows(self.random.sample(rows, len(rows)))
        yield "one row", _rows(self.random.sample(rows, 1))

    def _column(self, hook: str, pod: PendingPod, rows: Rows, answer: object) -> Iterator[tuple[int, int]]:
        """Pair the rows with what a columnar form says of them."""
        listed = list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()
        if isinstance(answer, int) and hook != "filter_nodes":
            answer = np.full(len(listed), answer)
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iub" or answer.shape != (len(listed),):
            self._violation(hook, pod, f"answers {answer!r}, which is not one integer for each of {len(listed)} rows")
        return zip(listed, answer.tolist(), strict=True)

    # -- saying so -------------------------------------------------------------------------------------------------

    def _equal(self, pod: PendingPod, title: str, said: _Answers, expected: _Answers) -> None:
        for mine, theirs in zip(map(_by_row, said), map(_by_row, expected), strict=True):
            for row in (*mine, *theirs):
                if mine.get(row) != theirs.get(row):
                    place = f" on node {self.nodes[row].name}" if row is not None else ""
                    self._violation("", pod, f"{title}{place}: {mine.get(row)}, not {theirs.get(row)}")

    def _differ(self, hook: str, pod: PendingPod, row: int, how: str, said: object, alone: object) -> NoReturn:
        node, scalar = self.nodes[row].name, hook.removesuffix("_nodes")
        self._violation(hook, pod, f"node {node}: says {said} {how}, {scalar} says {alone} of the node alone")

    def _violation(self, hook: str, pod: PendingPod, text: str, cause: BaseException | None = None) -> NoReturn:
        subject = f"{self.plugin.name}{': ' + hook if hook else ''}: pod {pod.key}"
        raise ContractViolation(f"{subject}: {text} ({self.source}, {self.latest})") from cause


def _rows(rows: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(rows, dtype=np.int64)


def _by_row(said: object) -> Mapping[int | None, object]:
    return said if isinstance(said, dict) else {None: said}


def _only(steps: tuple[T, ...]) -> T | None:
    return steps[0] if steps else None


def _part_of(nodes: NodeTable, rows: list[int]) -> NodeTable:
    """Return the table as if it had only these rows; its columns are the same."""
    part = copy.copy(nodes)
    part._row_of = {nodes[row].name: row for row in rows}
    part._listed = np.array(rows)
    return part


def _sight(nodes: NodeTable, pods: Iterable[PendingPod]) -> Iterator[tuple[str, object]]:
    """List all that a hook is shown, as values to compare."""
    for column in list(nodes._columns()):
        yield f"column {id(column)}", column.values.tobytes()
    for node in nodes:
        yield f"node {node.name}", (msgspec.json.encode(node.object), [_facts(pod) for pod in node.pods])
    for pod in pods:
        yield f"pod {pod.key}", (msgspec.json.encode(pod.object), _facts(pod))
    yield "the change logs", (nodes.node_log.end, nodes.pod_log.end)


def _facts(pod: PodInfo) -> tuple[object, ...]:
    own = (pod.uid, pod.name, pod.node_name, pod.nominated_node_name, pod.priority, pod.row, pod.terminating)
    return (*own, pod.namespace, dict(pod.labels), msgspec.json.encode(pod.template.spec))
