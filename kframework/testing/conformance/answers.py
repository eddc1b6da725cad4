"""Compare the answers of each plugin of a profile, called by itself, in every form that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep, PreFilterAnswer, ScoreStep, as_column
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.testing.conformance.cases import Fact, compare_keys
from kframework.testing.conformance.recorded import SUCCESS, RecordedCycle, RecordedScores, RecordedStatus
from kframework.values.scores import Scores
from kframework.values.status import Code, Status

Statuses = Mapping[str, RecordedStatus]


def compare_pre_enqueue(
    expected: Statuses, profile: Profile, pod: PendingPod, installed: Set[str], *path: str | int
) -> Iterator[Fact]:
    """Compare each PreEnqueue plugin's answer for the pod."""
    got = {step.name: RecordedStatus.from_status(step.call(pod)) for step in profile.pre_enqueue}
    yield from compare_keys(_rejections(expected, installed), _rejections(got), *path, "preEnqueue")


class PluginComparer:
    """Calls each plugin of a profile by itself for a pod, in each of its forms; `installed` names the existing ones."""

    def __init__(self, profile: Profile, pod: PendingPod, nodes: NodeTable, installed: Set[str]) -> None:
        self._profile = profile
        self._pod = pod
        self._nodes = nodes
        self._installed = installed
        self._state: CycleState = CycleState()
        self._pre_filter = {
            step.name: _record_pre_filter(step.call(self._state, pod, nodes)) for step in profile.pre_filter
        }

    def compare(self, recorded: RecordedCycle) -> Iterator[Fact]:
        """Compare PreFilter, Filter on every node, and Score over the nodes that are recorded as feasible."""
        expected, got = _rejections(recorded.pre_filter, self._installed), _rejections(self._pre_filter)
        yield from compare_keys(with_own_errors(expected, got), got, "preFilter")
        skipped = [step.name for step in self._profile.filters if self._pre_filter_status(step).code == "Skip"]
        not_run = [step.name for step in self._profile.filters if self._pre_filter_status(step).rejects]
        yield from self._compare_names(recorded.filter_skipped, skipped, "filterSkipped")
        yield from self._compare_names(recorded.filter_not_run, not_run, "filterNotRun")
        yield from self._compare_filters(recorded)
        if not recorded.error and not recorded.score_error:
            yield from self._compare_scores(recorded)

    def _compare_names(self, expected: Sequence[str], got: Sequence[str], field: str) -> Iterator[Fact]:
        expected = [name for name in expected if name in self._installed]
        yield from compare_keys(dict.fromkeys(expected, True), dict.fromkeys(got, True), field)

    def _pre_filter_status(self, step: FilterStep) -> RecordedStatus:
        return self._pre_filter.get(step.name, SUCCESS)

    def _compare_filters(self, recorded: RecordedCycle) -> Iterator[Fact]:
        running = [step for step in self._profile.filters if self._pre_filter_status(step).code == "Success"]
        columnar = [step for step in running if step.run_rows is not None]
        scalar = {
            node.name: {step.name: _record_filter(step, step.run(self._state, self._pod, node)) for step in running}
            for node in self._nodes
        }
        by_node: dict[str, dict[str, RecordedStatus]] = {node.name: {} for node in self._nodes}
        for step in columnar:
            for node, status in zip(self._nodes, self._columnar_statuses(step), strict=True):
                by_node[node.name][step.name] = status
        columnar_names = {step.name for step in columnar}
        for name in dict.fromkeys((*recorded.filter, *scalar)):
            expected = _rejections(recorded.filter.get(name, {}), self._installed)
            got = _rejections(scalar.get(name, {}))
            yield from compare_keys(with_own_errors(expected, got), got, "filter", name)
            expected, got = _rejections(expected, columnar_names), _rejections(by_node.get(name, {}))
            yield from compare_keys(with_own_errors(expected, got), got, "filter_nodes", name)

    def _columnar_statuses(self, step: FilterStep) -> list[RecordedStatus]:
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
        return [_record_filter(step, status) for status in statuses]

    def _compare_scores(self, recorded: RecordedCycle) -> Iterator[Fact]:
        numbers = [self._nodes.row(name) for name in recorded.feasible]
        rows = np.array([row for row in numbers if row is not None], dtype=np.int64)
        if not len(rows):
            return
        not_scoring = {
            step.name: status
            for step in self._profile.pre_score
            if (status := step.call(self._state, self._pod, self._nodes, rows)) is not None
        }
        scorers = [step.name for step in self._profile.scores]
        skipped = [name for name in scorers if name in not_scoring and not_scoring[name].code == Code.SKIP]
        yield from self._compare_names(recorded.score_skipped, skipped, "scoreSkipped")
        got = {
            step.name: self._score_nodes(step, rows) for step in self._profile.scores if step.name not in not_scoring
        }
        expected = {name: scored for name, scored in recorded.scores.items() if name in self._installed}
        for name in dict.fromkeys((*expected, *got)):
            yield from _compare_scored(name, expected.get(name), got.get(name))
        for step in self._profile.scores:
            if step.name in expected and step.name not in not_scoring and step.run_rows is not None:
                yield from compare_keys(
                    expected[step.name].raw, self._columnar_scores(step, rows), "score_nodes", step.name
                )

    def _score_nodes(self, step: ScoreStep, rows: Scores) -> RecordedScores | RecordedStatus:
        raw: list[int] = []
        for row in rows.tolist():
            score = step.run(self._state, self._pod, self._nodes[row])
            if isinstance(score, Status):
                return RecordedStatus.from_status(score)
            raw.append(score)
        normalized: object = raw
        if step.normalize is not None:
            normalized = step.normalize_scores(self._state, self._pod, np.array(raw, dtype=np.int64))
            if isinstance(normalized, Status):
                return RecordedStatus.from_status(normalized)
        column = as_column(normalized, len(raw)).tolist()
        return RecordedScores(
            weight=step.weight, raw=self._scores_by_name(rows, raw), normalized=self._scores_by_name(rows, column)
        )

    def _columnar_scores(self, step: ScoreStep, rows: Scores) -> Mapping[str, int]:
        assert step.run_rows is not None
        try:
            column = as_column(step.run_rows(self._state, self._pod, self._nodes, rows), len(rows))
        except Exception as error:
            self._profile.fault_status(step.name, "score_nodes", error)
            return {}
        return self._scores_by_name(rows, column.tolist())

    def _scores_by_name(self, rows: Scores, scores: Sequence[int]) -> dict[str, int]:
        return {self._nodes[row].name: score for row, score in zip(rows.tolist(), scores, strict=True)}


def _rejections(statuses: Statuses, plugins: Set[str] | None = None) -> dict[str, RecordedStatus]:
    """Leave out Success, which is not recorded everywhere, and all plugins but these."""
    return {
        name: status for name, status in statuses.items() if status != SUCCESS and (plugins is None or name in plugins)
    }


def with_own_errors(expected: Statuses, got: Statuses) -> Statuses:
    """Return what is expected, with our own messages for errors of DynamicResources, whose texts are not compared."""
    ours = {
        name: got[name]
        for name, status in expected.items()
        if name in got and status.code == got[name].code == "Error" and "DynamicResources" in (name, status.plugin)
    }
    return {**expected, **ours}


def _record_pre_filter(answer: PreFilterAnswer) -> RecordedStatus:
    if answer is None or isinstance(answer, Status):
        return RecordedStatus.from_status(answer)
    return RecordedStatus(code="Success", node_names=tuple(sorted(answer)), no_nodes=not answer)


def _record_filter(step: FilterStep, status: Status | None) -> RecordedStatus:
    """Return the plugin's own message, without the cycle's prefix for errors."""
    if status is not None and status.code == Code.ERROR:
        prefix = f'running "{step.name}" filter plugin: '
        status = Status(status.code, tuple(reason.removeprefix(prefix) for reason in status.reasons))
    return RecordedStatus.from_status(status)


def _compare_scored(
    name: str, expected: RecordedScores | None, got: RecordedScores | RecordedStatus | None
) -> Iterator[Fact]:
    if expected is None or not isinstance(got, RecordedScores):
        yield Fact(("scores", name), expected, got)
        return
    yield Fact(("scores", name, "weight"), expected.weight, got.weight)
    yield from compare_keys(expected.raw, got.raw, "scores", name, "raw")
    yield from compare_keys(expected.normalized, got.normalized, "scores", name, "normalized")
