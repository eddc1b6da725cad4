"""Remedies: the smallest changes of the cluster, or of the pod, that would make a pending pod schedulable.

Promising nodes are found in columns (`Prospects`). On each, the plugins' rejections are resolved one after another
until none is left, every step in a what-if in which PreFilter runs again (`Trials`). Unneeded changes are left out,
down to the last unit.
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
from kframework.explain.remedies.suggestions import SuggestHooks, Trials, of_pod
from kframework.framework.suggestions import (
    MAX_SUGGESTIONS,
    UNFIXABLE,
    Amount,
    Proposal,
    Suggestion,
    format_names,
    join_clauses,
)
from kframework.scheduler.slices import time_sliced
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
_SHOWN = 5
#: The number of nodes tried for each pattern of rejections, and in all.
_EACH, _TRIED = 3, 12
#: The maximum number of rejections to resolve on a node.
_STEPS = 8
#: The number of restarts of the search, after nodes were added or deleted, before it is aborted.
_MAX_RESTARTS = 3

_Work = Generator[None, None, Proposal | None]


class Remedy(msgspec.Struct, frozen=True):
    """Changes that, all made, let the pod be scheduled without preemption; with one unit less of any it is not.

    Extenders are not called. `text` describes the changes in one line.
    """

    text: str
    changes: tuple[dict[str, object], ...]

    @classmethod
    def from_proposal(cls, changes: Proposal) -> Remedy:
        """Show changes as an explanation does."""
        return cls(format_proposal(changes), tuple(change.to_dict() for change in changes))


def remedies(engine: PodEngine, pod: PendingPod) -> Generator[None, None, list[Proposal]]:
    """Find remedies for a pending pod, in slices: single changes, or else the fewest on one node.

    The kinds of change alternate. None is returned for a pod that is schedulable as it is.
    """
    search = _Search(engine, pod)
    yield from time_sliced(search.work(), FullEvaluation(engine, pod).isolated)
    return search.proved


class _Search:
    def __init__(self, engine: PodEngine, pod: PendingPod) -> None:
        self._engine = engine
        self._pod = pod
        self._profile = engine.profiles[pod.scheduler_name]
        self._suggestions = SuggestHooks(self._profile)
        self.proved: list[Proposal] = []

    def work(self) -> Iterator[None]:
        """Search; yields where it may pause, and starts over if nodes are added or deleted meanwhile."""
        nodes = self._engine.cluster.nodes
        for _ in range(_MAX_RESTARTS):
            generation = nodes.generation
            for _ in self._search():
                yield
                if nodes.generation != generation:
                    break
            else:
                return
        self.proved = []

    def _search(self) -> Iterator[None]:
        self.proved = []
        self._trials = Trials(self._engine.cluster, self._profile, self._pod)
        base = yield from self._accepted()
        if base is None:
            return
        evaluation = FullEvaluation(self._engine, self._trials.changed(base))
        yield from evaluation.work()
        if len(evaluation.feasible):
            found = [base] if base else []
        else:
            prospects = Prospects(evaluation, self._suggestions)
            yield from prospects.work()
            # Change the cluster where that is promising; or the pod, for each plugin that alone rejects a node.
            found = yield from self._fix_nodes(prospects.most_promising(_EACH)[:_TRIED], base, (False,))
            alone = [row for plugin in prospects.rejecting if (row := prospects.alone(plugin)) is not None]
            found += yield from self._fix_nodes(alone, base, (True,))
            found += yield from self._other_requests(alone, base)
            if not any(len(changes) == len(base) + 1 for changes in found):
                # Change the cluster and, if that is not enough, the pod as well.
                found += yield from self._fix_nodes(prospects.fewest_changes(2)[:_TRIED], base, (False, True))
        yield from self._minimise(found, len(base))

    def _accepted(self) -> _Work:
        """Find the changes of the pod without which it is rejected as a whole; None if none help."""
        changes: Proposal = ()
        for _ in range(_STEPS):
            with self._trials.made(changes) as trial:
                rejected = trial.rejection
                if rejected is None:
                    return changes
                proposals = [each for each in self._suggestions.of(trial, None, rejected) if of_pod(each)]
            yield
            settled = yield from self._settled("", changes, rejected, proposals)
            if settled is None:
                return None
            changes = settled
        return None

    def _fix_nodes(
        self, rows: Iterable[int], base: Proposal, sides: Sequence[bool]
    ) -> Generator[None, None, list[Proposal]]:
        found: list[Proposal] = []
        for row in rows:
            found += yield from self._fix_node(row, base, sides)
        return found

    def _fix_node(self, row: int, changes: Proposal, sides: Sequence[bool]) -> Generator[None, None, list[Proposal]]:
        """Resolve the rejections of a node, one plugin after another; return the changes if that succeeds.

        `sides` lists whether they may be `of_pod`: those of the cluster alone come first.
        """
        name = self._engine.cluster.nodes[row].name
        for _ in range(_STEPS):
            with self._trials.made(changes) as trial:
                said = trial.rejections(name)
                if not said:
                    return [changes]
                # Resources come last: pods deleted for other reasons free some.
                status = next((each for each in said if each.plugin != "NodeResourcesFit"), said[0])
                suggested = self._suggestions.of(trial, trial.nodes[row], status)
                proposals = [each for side in sides for each in suggested if of_pod(each) == side]
            yield
            settled = yield from self._settled(name, changes, status, sorted(proposals, key=len))
            if settled is None:
                return []
            changes = settled
        return []

    def _other_requests(self, rows: Iterable[int], base: Proposal) -> Generator[None, None, list[Proposal]]:
        """Find the single changes of claims that suffice on these nodes, as none of them is better than the others."""
        found: list[Proposal] = []
        for row in rows:
            name = self._engine.cluster.nodes[row].name
            with self._trials.made(base) as trial:
                said = trial.rejections(name)
                proposals = self._suggestions.of(trial, trial.nodes[row], said[0]) if said else []
            for change in (each[0] for each in proposals if len(each) == 1 and each[0].target.claim):
                yield
                with self._trials.made((*base, change)) as trial:
                    found += [] if trial.rejections(name) else [(*base, change)]
        return found

    def _settled(self, name: str, changes: Proposal, status: Status, proposals: Sequence[Proposal]) -> _Work:
        """Add the first proposal that answers a plugin's rejection; None if none does."""
        for proposal in proposals:
            tried = (*changes, *(change for change in proposal if change not in changes))
            if len(changes) < len(tried) <= MAX_SUGGESTIONS:
                with self._trials.made(tried) as trial:
                    if all(each.plugin != status.plugin for each in trial.rejections(name)):
                        return tried
                yield
        return None

    def _minimise(self, found: list[Proposal], base: int) -> Iterator[None]:
        """Minimise the changes found, the shortest first, until there are enough remedies."""
        by_kind: dict[tuple[int, str], list[Proposal]] = {}
        for changes in found:
            if len(changes) <= base + 1:
                by_kind.setdefault(_order(changes[min(base, len(changes) - 1)]), []).append(changes)
        # The kinds of change alternate.
        turns = chain.from_iterable(zip_longest(*(by_kind[order] for order in sorted(by_kind))))
        several = sorted((changes for changes in found if len(changes) > base + 1), key=len)
        for changes in chain(filter(None, turns), several):
            if len(self.proved) == _SHOWN:
                break
            needed = self._with_examples((yield from self._needed(changes)))
            self.proved += [needed] if needed not in self.proved else []
            yield
        shortest = min(map(len, self.proved), default=0)
        self.proved = [changes for changes in self.proved if len(changes) <= max(shortest, base + 1)]

    def _needed(self, changes: Proposal) -> Generator[None, None, Proposal]:
        """Leave out the changes that are not needed, and the units of the others that are not."""
        for place, change in enumerate(changes):
            before, behind = changes[:place], changes[place + 1 :]
            others = (*before, *behind)
            if others and (yield from self._trials.anywhere(others)):
                return (yield from self._needed(others))
            if isinstance(change, Amount):
                amount = yield from self._least(before, change, behind)
                changes = (*before, change.with_amount(amount), *behind)
        return tuple(sorted(changes, key=lambda change: (_order(change), change.text)))

    def _least(self, before: Proposal, change: Amount, behind: Proposal) -> Generator[None, None, int]:
        """Find the smallest amount of a change that suffices; mostly it is the given one."""
        too_little, enough = 0, change.amount
        tried = enough - 1
        while too_little < tried:
            if (yield from self._trials.anywhere((*before, change.with_amount(tried), *behind))):
                enough = tried
            else:
                too_little = tried
            tried = (too_little + enough) // 2
        return enough

    def _with_examples(self, changes: Proposal) -> Proposal:
        """Keep the examples of pods to delete only if deleting them suffices."""
        freed = [change for change in changes if change.examples]
        with self._trials.made([each for change in changes for each in change.examples or (change,)]) as trial:
            if not freed or not trial.rejections(freed[0].target.node):
                return changes
        return tuple(replace(change, examples=()) for change in changes)


def format_proposal(changes: Iterable[Suggestion]) -> str:
    """Format changes that belong together in one line."""
    parts = [
        f"{change.text} (e.g. delete {_pods(change.examples)})" if change.examples else change.text
        for change in changes
        if not change.target.pod
    ]
    deleted = [change for change in changes if change.target.pod]
    if len(deleted) > 1:
        nodes = {change.target.node for change in deleted}
        where = f" on {nodes.pop()}" if len(nodes) == 1 else ""
        return join_clauses([*parts, f"delete pods {_pods(deleted)}{where}"])
    return join_clauses([*parts, *(change.text for change in deleted)])


def _pods(deleted: Iterable[Suggestion]) -> str:
    return format_names([change.target.pod for change in deleted])


def _order(change: Suggestion) -> tuple[int, str]:
    return (_KINDS.index(change.kind) if change.kind in _KINDS else len(_KINDS)), change.kind


_Floats = NDArray[np.float64]


class Prospects:
    """The rejections of the nodes that PreFilter leaves, with estimates of the changes needed."""

    def __init__(self, evaluation: FullEvaluation, suggestions: SuggestHooks) -> None:
        self.evaluation = evaluation
        self._suggestions = suggestions
        #: The rows that are looked at; all else is aligned to them.
        self.rows: NDArray[np.int64] = evaluation.within
        #: The plugins that reject nodes, with the number and size of the changes needed on each row.
        self.rejecting: dict[str, tuple[_Floats, _Floats]] = {}
        #: The number of cluster changes needed, the number if the pod is changed as a last resort, and the size of the
        #: changes.
        self.changes: NDArray[np.float64] = np.zeros(len(self.rows))
        self.effort: NDArray[np.float64] = np.zeros(len(self.rows))
        self.size: NDArray[np.float64] = np.zeros(len(self.rows))
        #: Which plugins reject the node, as one integer.
        self.pattern: Scores = np.zeros(len(self.rows), dtype=np.int64)

    def work(self) -> Iterator[None]:
        """Estimate, one plugin after the other."""
        deletions = np.zeros(len(self.rows))
        for name, said in self.evaluation.said.items():
            rejected = said[self.rows] != PASS
            if not rejected.any():
                continue
            size, changes = np.zeros((2, len(self.rows)))
            efforts = yield from self._suggestions.efforts(self.evaluation, name, self.rows[rejected])
            changes[rejected], size[rejected] = np.ceil(efforts), efforts % UNFIXABLE
            self.pattern += rejected.astype(np.int64) << len(self.rejecting)
            self.rejecting[name] = changes, size
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
        return self._best(np.flatnonzero(self.changes <= MAX_SUGGESTIONS), self.changes, each)

    def fewest_changes(self, each: int) -> list[int]:
        """List the rows with the least to change, including the pod: `each` per pattern, best first."""
        return self._best(np.arange(len(self.rows)), self.effort, each)

    def alone(self, plugin: str) -> int | None:
        """Return the row that only this plugin rejects, and least; None if there is none."""
        changes, size = self.rejecting[plugin]
        places = np.flatnonzero(self.pattern == 1 << list(self.rejecting).index(plugin))
        order = np.lexsort((changes[places], size[places]))
        return int(self.rows[places[order[0]]]) if len(places) else None

    def _best(self, places: NDArray[np.int64], first: _Floats, each: int) -> list[int]:
        places = places[np.lexsort((self.size[places], first[places]))]
        patterns = self.pattern[places]
        best: list[int] = []
        for pattern in np.unique(patterns).tolist():
            best += places[patterns == pattern][:each].tolist()
        best.sort(key=lambda place: (first[place], self.size[place]))
        return [int(self.rows[place]) for place in best]
