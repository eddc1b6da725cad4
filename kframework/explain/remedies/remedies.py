"""Remedies: the smallest changes of the cluster, or of the pod, that would make a pending pod schedulable.

On promising nodes (`NodeRanking`) the plugins' rejections are resolved one after another, every step in a what-if in
which PreFilter runs again (`WhatIf`). Unneeded changes are left out, down to the last unit.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, zip_longest

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.rejections import PASS
from kframework.core.pod_engine import PodEngine
from kframework.explain.full_evaluation import FullEvaluation
from kframework.explain.remedies.suggestions import SuggestHooks, WhatIf, changes_pod
from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    UNFIXABLE,
    AmountSuggestion,
    Proposal,
    Suggestion,
    format_names,
    join_clauses,
)
from kframework.scheduler.cooperative import time_sliced
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores
from kframework.values.status import Status

#: The kinds of change in display order; others come last.
_KINDS = (
    *("removeGate", "uncordon", "removeTaint", "setLabel", "removeLabel", "freeResource", "deletePod"),
    *("tolerate", "lowerRequest", "dropHostPort", "dropNodeSelector", "dropNodeRequirement", "dropPodTerm"),
    *("raiseMaxSkew", "dropSpread", "dropVolume"),
    *("tolerateDevices", "lowerCount", "dropClause", "dropConstraint", "dropClaim"),
)

#: The maximum number of remedies.
_MAX_REMEDIES = 5
#: The number of nodes tried for each pattern of rejections, and in all.
_PER_PATTERN, _MAX_NODES = 3, 12
#: The maximum number of rejections to resolve on a node.
_MAX_REJECTIONS = 8
#: The number of restarts of the search, after nodes were added or deleted, before it is aborted.
_MAX_RESTARTS = 3

_Work = Generator[None, None, Proposal | None]


class Remedy(msgspec.Struct, frozen=True):
    """Changes that let the pod be scheduled without preemption and extenders; each is as small as possible."""

    text: str
    changes: tuple[dict[str, object], ...]

    @classmethod
    def from_proposal(cls, changes: Proposal) -> Remedy:
        """Return the changes of a proposal as data."""
        return cls(format_proposal(changes), tuple(change.to_dict() for change in changes))


def remedies(engine: PodEngine, pod: PendingPod) -> Generator[None, None, list[Proposal]]:
    """Find remedies for a pending pod, in slices: single changes, or else the fewest on one node; none if it fits."""
    search = _RemedySearch(engine, pod)
    yield from time_sliced(search.work(), FullEvaluation(engine, pod).isolated)
    return search.proposals


class _RemedySearch:
    def __init__(self, engine: PodEngine, pod: PendingPod) -> None:
        self._engine = engine
        self._pod = pod
        self._profile = engine.profiles[pod.scheduler_name]
        self._suggestions = SuggestHooks(self._profile)
        self.proposals: list[Proposal] = []

    def work(self) -> Iterator[None]:
        """Search; yields where it may pause, and starts over if nodes are added or deleted meanwhile."""
        nodes = self._engine.cluster.nodes
        for _ in range(_MAX_RESTARTS):
            generation = nodes.generation
            for _ in self._search_once():
                yield
                if nodes.generation != generation:
                    break
            else:
                return
        self.proposals = []

    def _search_once(self) -> Iterator[None]:
        self.proposals = []
        self._what_if = WhatIf(self._engine.cluster, self._profile, self._pod)
        base = yield from self._fix_pod()
        if base is None:
            return
        evaluation = FullEvaluation(self._engine, self._what_if.preview(base))
        yield from evaluation.work()
        if len(evaluation.feasible):
            proposals = [base] if base else []
        else:
            ranking = NodeRanking(evaluation, self._suggestions)
            yield from ranking.work()
            # Change the cluster where that is promising; or the pod, for each plugin that alone rejects a node.
            proposals = yield from self._fix_nodes(ranking.most_promising(_PER_PATTERN)[:_MAX_NODES], base, (False,))
            lone = [
                row for plugin in ranking.changes_by_plugin if (row := ranking.only_rejected_by(plugin)) is not None
            ]
            proposals += yield from self._fix_nodes(lone, base, (True,))
            proposals += yield from self._claim_changes(lone, base)
            if not any(len(changes) == len(base) + 1 for changes in proposals):
                # Change the cluster and, if that is not enough, the pod as well.
                proposals += yield from self._fix_nodes(ranking.fewest_changes(2)[:_MAX_NODES], base, (False, True))
        yield from self._minimise(proposals, len(base))

    def _fix_pod(self) -> _Work:
        """Find the changes of the pod without which it is rejected as a whole; None if none help."""
        changes: Proposal = ()
        for _ in range(_MAX_REJECTIONS):
            with self._what_if.apply(changes) as trial:
                rejected = trial.rejection
                if rejected is None:
                    return changes
                proposals = [each for each in self._suggestions.suggest(trial, None, rejected) if changes_pod(each)]
            yield
            extended = yield from self._choose_change("", changes, rejected, proposals)
            if extended is None:
                return None
            changes = extended
        return None

    def _fix_nodes(
        self, rows: Iterable[int], base: Proposal, sides: Sequence[bool]
    ) -> Generator[None, None, list[Proposal]]:
        proposals: list[Proposal] = []
        for row in rows:
            proposals += yield from self._fix_node(row, base, sides)
        return proposals

    def _fix_node(self, row: int, changes: Proposal, sides: Sequence[bool]) -> Generator[None, None, list[Proposal]]:
        """Return changes that resolve all rejections of a node; `sides` lists whether they may change the pod."""
        name = self._engine.cluster.nodes[row].name
        for _ in range(_MAX_REJECTIONS):
            with self._what_if.apply(changes) as trial:
                rejections = trial.rejections(name)
                if not rejections:
                    return [changes]
                # Resources come last: pods deleted for other reasons free some.
                status = next((each for each in rejections if each.plugin != "NodeResourcesFit"), rejections[0])
                suggested = self._suggestions.suggest(trial, trial.nodes[row], status)
                proposals = [each for side in sides for each in suggested if changes_pod(each) == side]
            yield
            extended = yield from self._choose_change(name, changes, status, sorted(proposals, key=len))
            if extended is None:
                return []
            changes = extended
        return []

    def _claim_changes(self, rows: Iterable[int], base: Proposal) -> Generator[None, None, list[Proposal]]:
        sufficient: list[Proposal] = []
        for row in rows:
            name = self._engine.cluster.nodes[row].name
            with self._what_if.apply(base) as trial:
                rejections = trial.rejections(name)
                proposals = self._suggestions.suggest(trial, trial.nodes[row], rejections[0]) if rejections else []
            for change in (each[0] for each in proposals if len(each) == 1 and each[0].target.claim):
                yield
                with self._what_if.apply((*base, change)) as trial:
                    sufficient += [] if trial.rejections(name) else [(*base, change)]
        return sufficient

    def _choose_change(self, name: str, changes: Proposal, status: Status, proposals: Sequence[Proposal]) -> _Work:
        """Add the first proposal that answers a plugin's rejection; None if none does."""
        for proposal in proposals:
            trial_changes = (*changes, *(change for change in proposal if change not in changes))
            if len(changes) < len(trial_changes) <= MAX_SUGGESTIONS:
                with self._what_if.apply(trial_changes) as trial:
                    if all(each.plugin != status.plugin for each in trial.rejections(name)):
                        return trial_changes
                yield
        return None

    def _minimise(self, proposals: list[Proposal], base: int) -> Iterator[None]:
        """Minimise the changes found, the shortest first, until there are enough remedies."""
        by_kind: dict[tuple[int, str], list[Proposal]] = {}
        for changes in proposals:
            if len(changes) <= base + 1:
                by_kind.setdefault(_display_order(changes[min(base, len(changes) - 1)]), []).append(changes)
        # The kinds of change alternate.
        alternating = chain.from_iterable(zip_longest(*(by_kind[order] for order in sorted(by_kind))))
        several = sorted((changes for changes in proposals if len(changes) > base + 1), key=len)
        for changes in chain(filter(None, alternating), several):
            if len(self.proposals) == _MAX_REMEDIES:
                break
            minimal = self._with_examples((yield from self._drop_unneeded(changes)))
            self.proposals += [minimal] if minimal not in self.proposals else []
            yield
        shortest = min(map(len, self.proposals), default=0)
        self.proposals = [changes for changes in self.proposals if len(changes) <= max(shortest, base + 1)]

    def _drop_unneeded(self, changes: Proposal) -> Generator[None, None, Proposal]:
        """Leave out unneeded changes, and reduce the others to the units that are needed."""
        for position, change in enumerate(changes):
            before, after = changes[:position], changes[position + 1 :]
            others = (*before, *after)
            if others and (yield from self._what_if.fits_somewhere(others)):
                return (yield from self._drop_unneeded(others))
            if isinstance(change, AmountSuggestion):
                amount = yield from self._smallest_amount(before, change, after)
                changes = (*before, change.with_amount(amount), *after)
        return tuple(sorted(changes, key=lambda change: (_display_order(change), change.text)))

    def _smallest_amount(
        self, before: Proposal, change: AmountSuggestion, after: Proposal
    ) -> Generator[None, None, int]:
        too_little, enough = 0, change.amount
        amount = enough - 1
        while too_little < amount:
            if (yield from self._what_if.fits_somewhere((*before, change.with_amount(amount), *after))):
                enough = amount
            else:
                too_little = amount
            amount = (too_little + enough) // 2
        return enough

    def _with_examples(self, changes: Proposal) -> Proposal:
        exemplified = [change for change in changes if change.examples]
        with self._what_if.apply([each for change in changes for each in change.examples or (change,)]) as trial:
            if not exemplified or not trial.rejections(exemplified[0].target.node):
                return changes
        return tuple(replace(change, examples=()) for change in changes)


def format_proposal(changes: Iterable[Suggestion]) -> str:
    parts = [
        f"{change.text} (e.g. delete {_format_pods(change.examples)})" if change.examples else change.text
        for change in changes
        if not change.target.pod
    ]
    deleted = [change for change in changes if change.target.pod]
    if len(deleted) > 1:
        nodes = {change.target.node for change in deleted}
        where = f" on {nodes.pop()}" if len(nodes) == 1 else ""
        return join_clauses([*parts, f"delete pods {_format_pods(deleted)}{where}"])
    return join_clauses([*parts, *(change.text for change in deleted)])


def _format_pods(deleted: Iterable[Suggestion]) -> str:
    return format_names([change.target.pod for change in deleted])


def _display_order(change: Suggestion) -> tuple[int, str]:
    return (_KINDS.index(change.kind) if change.kind in _KINDS else len(_KINDS)), change.kind


_Floats = NDArray[np.float64]


class NodeRanking:
    """The rejections of the nodes that PreFilter leaves, with estimates of the changes needed."""

    def __init__(self, evaluation: FullEvaluation, suggestions: SuggestHooks) -> None:
        self.evaluation = evaluation
        self._suggestions = suggestions
        #: The rows that are looked at; all else is aligned to them.
        self.rows: NDArray[np.int64] = evaluation.candidate_rows
        #: The plugins that reject nodes, with the number and size of the changes needed on each row.
        self.changes_by_plugin: dict[str, tuple[_Floats, _Floats]] = {}
        #: The number of cluster changes needed, the number if the pod is changed as a last resort, and the size of the
        #: changes.
        self.changes: NDArray[np.float64] = np.zeros(len(self.rows))
        self.effort: NDArray[np.float64] = np.zeros(len(self.rows))
        self.size: NDArray[np.float64] = np.zeros(len(self.rows))
        #: Which plugins reject the node, as one integer.
        self.pattern: Scores = np.zeros(len(self.rows), dtype=np.int64)

    def work(self) -> Iterator[None]:
        deletions = np.zeros(len(self.rows))
        for name, rejections in self.evaluation.rejections.items():
            rejected = rejections[self.rows] != PASS
            if not rejected.any():
                continue
            size, changes = np.zeros((2, len(self.rows)))
            estimates = yield from self._suggestions.estimate(self.evaluation, name, self.rows[rejected])
            changes[rejected], size[rejected] = np.ceil(estimates), estimates % UNFIXABLE
            self.pattern += rejected.astype(np.int64) << len(self.changes_by_plugin)
            self.changes_by_plugin[name] = changes, size
            self.effort += np.where(changes <= MAX_SUGGESTIONS, changes, 1)
            if self.evaluation.profile.plugins[name].reads == "node":
                self.changes += changes
            else:
                deletions = np.maximum(deletions, changes)  # one pod may block several plugins
            self.size += size
            yield
        self.changes += deletions

    def most_promising(self, each: int) -> list[int]:
        """List the rows where changes of the cluster may help: `each` per pattern of rejections, best first."""
        return self._best_rows(np.flatnonzero(self.changes <= MAX_SUGGESTIONS), self.changes, each)

    def fewest_changes(self, each: int) -> list[int]:
        """List the rows with the least to change, including the pod: `each` per pattern, best first."""
        return self._best_rows(np.arange(len(self.rows)), self.effort, each)

    def only_rejected_by(self, plugin: str) -> int | None:
        """Return the row, of those that only this plugin rejects, with the fewest changes; None if there is none."""
        changes, size = self.changes_by_plugin[plugin]
        positions = np.flatnonzero(self.pattern == 1 << list(self.changes_by_plugin).index(plugin))
        order = np.lexsort((changes[positions], size[positions]))
        return int(self.rows[positions[order[0]]]) if len(positions) else None

    def _best_rows(self, positions: NDArray[np.int64], first: _Floats, each: int) -> list[int]:
        positions = positions[np.lexsort((self.size[positions], first[positions]))]
        patterns = self.pattern[positions]
        best: list[int] = []
        for pattern in np.unique(patterns).tolist():
            best += positions[patterns == pattern][:each].tolist()
        best.sort(key=lambda position: (first[position], self.size[position]))
        return [int(self.rows[position]) for position in best]
