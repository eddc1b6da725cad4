"""Compare the answers of each plugin of a profile, called by itself, in every form that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, PreFilterAnswer, ScoreStep, as_column
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Fact, beside
from kframework.testing.conformance.recorded import PASSES, Recorded, Scored, Verdict
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

Verdicts = Mapping[str, Verdict]


def compare_pre_enqueue(
    expected: Verdicts, profile: Profile, pod: PendingPod, built: Set[str], *path: str | int
) -> Iterator[Fact]:
    """Compare each PreEnqueue plugin's answer for the pod."""
    got = {step.name: Verdict.of(step.call(pod)) for step in profile.pre_enqueue}
    yield from beside(_rejections(expected, built), _rejections(got), *path, "preEnqueue")


class Answers:
    """A pod put to each plugin of a profile by itself; `built` are the plugins that there are.

    Hooks named in a path, such as `filter_nodes`, are the columnar forms of what is recorded.
    """

    def __init__(self, profile: Profile, pod: PendingPod, nodes: NodeTable, built: Set[str]) -> None:
        self._profile = profile
        self._pod = pod
        self._nodes = nodes
        self._built = built
        self._state: CycleState = CycleState()
        self._pre_filter = {
            step.name: _pre_filter_verdict(step.call(self._state, pod, nodes)) for step in profile.pre_filter
        }

    def compare(self, recorded: Recorded) -> Iterator[Fact]:
        """Compare PreFilter, Filter on every node, and Score over the nodes that are recorded as feasible."""
        expected, got = _rejections(recorded.pre_filter, self._built), _rejections(self._pre_filter)
        yield from beside(in_our_words(expected, got), got, "preFilter")
        skipped = [step.name for step in self._profile.filters if self._said(step).code == "Skip"]
        not_run = [step.name for step in self._profile.filters if self._said(step).rejects]
        yield from self._compare_names(recorded.filter_skipped, skipped, "filterSkipped")
        yield from self._compare_names(recorded.filter_not_run, not_run, "filterNotRun")
        yield from self._compare_filters(recorded)
        if not recorded.error and not recorded.score_error:
            yield from self._compare_scores(recorded)

    def _compare_names(self, expected: Sequence[str], got: Sequence[str], field: str) -> Iterator[Fact]:
        expected = [name for name in expected if name in self._built]
        yield from beside(dict.fromkeys(expected, True), dict.fromkeys(got, True), field)

    def _said(self, step: FilterStep) -> Verdict:
        return self._pre_filter.get(step.name, PASSES)

    def _compare_filters(self, recorded: Recorded) -> Iterator[Fact]:
        running = [step for step in self._profile.filters if self._said(step).code == "Success"]
        columnar = [step for step in running if step.run_rows is not None]
        one_by_one = {
            node.name: {step.name: _filter_verdict(step, step.run(self._state, self._pod, node)) for step in running}
            for node in self._nodes
        }
        at_once: dict[str, dict[str, Verdict]] = {node.name: {} for node in self._nodes}
        for step in columnar:
            for node, verdict in zip(self._nodes, self._verdicts(step), strict=True):
                at_once[node.name][step.name] = verdict
        columnar_names = {step.name for step in columnar}
        for name in dict.fromkeys((*recorded.filter, *one_by_one)):
            expected = _rejections(recorded.filter.get(name, {}), self._built)
            got = _rejections(one_by_one.get(name, {}))
            yield from beside(in_our_words(expected, got), got, "filter", name)
            expected, got = _rejections(expected, columnar_names), _rejections(at_once.get(name, {}))
            yield from beside(in_our_words(expected, got), got, "filter_nodes", name)

    def _verdicts(self, step: FilterStep) -> list[Verdict]:
        """Return the columnar form's statuses of all nodes, in their order."""
        assert step.run_rows is not None
        rows = self._nodes.order
        try:
            bits = as_column(step.run_rows(self._state, self._pod, self._nodes, rows), len(rows)).tolist()
            statuses = [step.explain(self._pod, b) if b else None for b in bits]
        except Exception as error:
            # The scalar form decides what is an error, on some node at least: the engine calls it in such a case.
            statuses = [step.run(self._state, self._pod, node) for node in self._nodes]
            if not any(status is not None and status.code == Code.ERROR for status in statuses):
                statuses = [self._profile.fault_status(step.name, "filter_nodes", error)] * len(rows)
        return [_filter_verdict(step, status) for status in statuses]

    def _compare_scores(self, recorded: Recorded) -> Iterator[Fact]:
        named = [self._nodes.row(name) for name in recorded.feasible]
        rows = np.array([row for row in named if row is not None], dtype=np.int64)
        if not len(rows):
            return
        silent = {
            step.name: status
            for step in self._profile.pre_score
            if (status := step.call(self._state, self._pod, self._nodes, rows)) is not None
        }
        scorers = [step.name for step in self._profile.scores]
        skipped = [name for name in scorers if name in silent and silent[name].code == Code.SKIP]
        yield from self._compare_names(recorded.score_skipped, skipped, "scoreSkipped")
        got = {step.name: self._scored(step, rows) for step in self._profile.scores if step.name not in silent}
        expected = {name: scored for name, scored in recorded.scores.items() if name in self._built}
        for name in dict.fromkeys((*expected, *got)):
            yield from _compare_scored(name, expected.get(name), got.get(name))
        for step in self._profile.scores:
            if step.name in expected and step.name not in silent and step.run_rows is not None:
                yield from beside(expected[step.name].raw, self._columnar(step, rows), "score_nodes", step.name)

    def _scored(self, step: ScoreStep, rows: Scores) -> Scored | Verdict:
        raw: list[int] = []
        for row in rows.tolist():
            score = step.run(self._state, self._pod, self._nodes[row])
            if isinstance(score, Status):
                return Verdict.of(score)
            raw.append(score)
        normalized: object = raw
        if step.normalize is not None:
            normalized = step.normalize_scores(self._state, self._pod, np.array(raw, dtype=np.int64))
            if isinstance(normalized, Status):
                return Verdict.of(normalized)
        column = as_column(normalized, len(raw)).tolist()
        return Scored(weight=step.weight, raw=self._by_name(rows, raw), normalized=self._by_name(rows, column))

    def _columnar(self, step: ScoreStep, rows: Scores) -> Mapping[str, int]:
        assert step.run_rows is not None
        try:
            column = as_column(step.run_rows(self._state, self._pod, self._nodes, rows), len(rows))
        except Exception as error:
            self._profile.fault_status(step.name, "score_nodes", error)
            return {}
        return self._by_name(rows, column.tolist())

    def _by_name(self, rows: Scores, scores: Sequence[int]) -> dict[str, int]:
        return {self._nodes[row].name: score for row, score in zip(rows.tolist(), scores, strict=True)}


def _rejections(verdicts: Verdicts, of: Set[str] | None = None) -> dict[str, Verdict]:
    """Leave out consent, which is not recorded everywhere, and all plugins but these."""
    return {name: verdict for name, verdict in verdicts.items() if verdict != PASSES and (of is None or name in of)}


def in_our_words(expected: Verdicts, got: Verdicts) -> Verdicts:
    """Return what is expected, errors of DynamicResources in our own words: only that they are errors counts."""
    ours = {
        name: got[name]
        for name, verdict in expected.items()
        if name in got and verdict.code == got[name].code == "Error" and "DynamicResources" in (name, verdict.plugin)
    }
    return {**expected, **ours}


def _pre_filter_verdict(answer: PreFilterAnswer) -> Verdict:
    if answer is None or isinstance(answer, Status):
        return Verdict.of(answer)
    return Verdict(code="Success", node_names=tuple(sorted(answer)), no_nodes=not answer)


def _filter_verdict(step: FilterStep, status: Status | None) -> Verdict:
    """Return the plugin's own message, without the cycle's prefix for errors."""
    if status is not None and status.code == Code.ERROR:
        prefix = f'running "{step.name}" filter plugin: '
        status = Status(status.code, tuple(reason.removeprefix(prefix) for reason in status.reasons))
    return Verdict.of(status)


def _compare_scored(name: str, expected: Scored | None, got: Scored | Verdict | None) -> Iterator[Fact]:
    if expected is None or not isinstance(got, Scored):
        yield Fact(("scores", name), expected, got)
        return
    yield Fact(("scores", name, "weight"), expected.weight, got.weight)
    yield from beside(expected.raw, got.raw, "scores", name, "raw")
    yield from beside(expected.normalized, got.normalized, "scores", name, "normalized")
