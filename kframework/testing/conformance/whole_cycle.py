"""One pod's whole scheduling cycle in the engine: the status of every node, the totals, and the messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from kframework.core.cycle.oracle import Oracle, VerificationError, verify
from kframework.core.cycle.records import fit_error
from kframework.core.cycle.rejections import PASS
from kframework.core.cycle.results import FitError, Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profile import Profile
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod, QueuedPod
from kframework.testing.conformance.cases import Fact
from kframework.testing.conformance.recorded import RecordedStatus
from kframework.testing.single_plugin import PROFILE
from kframework.values.status import Status


class WholeCycle:
    """The search for a node, with cached results, and uncached results for nodes that the search did not filter."""

    def __init__(self, engine: PodEngine, pod: PendingPod) -> None:
        self.engine: PodEngine = engine
        self.profile: Profile = engine.profiles[PROFILE]
        self.nodes: NodeTable = engine.cluster.nodes
        self.search: Search = engine.search(engine.start_attempt(QueuedPod(pod, 0.0)))
        self.outcome: Outcome = self.search.run()
        self._oracle = Oracle(engine.cluster, self.profile, pod)

    def compare_cached(self) -> Iterator[Fact]:
        """Compare every cached result with the uncached one."""
        try:
            verify(self.search, self.outcome)
        except VerificationError as error:
            yield Fact(("cached", error.what), str(error.uncached), str(error.cached))

    @cached_property
    def statuses(self) -> Mapping[str, RecordedStatus]:
        """The status of each node, by name."""
        return {node.name: self._status_of(node.row, node.name) for node in self.nodes}

    @cached_property
    def _search_results(self) -> Mapping[int, int]:
        """The search's results by row, without rejections if it called plugins only until enough nodes passed."""
        filtered, evaluated = self.search.filtered, slice(self.search.evaluated)
        rows, rejections = filtered.node_order[evaluated].tolist(), filtered.rejections[evaluated].tolist()
        return {
            row: rejection
            for row, rejection in zip(rows, rejections, strict=True)
            if rejection == PASS or not self.search.plan.fresh_scalar
        }

    def _status_of(self, row: int, name: str) -> RecordedStatus:
        pre_filter_result = self._oracle.pre_filter_result
        status: Status | None
        if isinstance(self.outcome, FitError):
            status = self.outcome.diagnosis[row]
        elif pre_filter_result.status is not None:
            status = pre_filter_result.status
        elif pre_filter_result.nodes is not None and name not in pre_filter_result.nodes:
            status = pre_filter_result.excluded
        elif row in self._search_results:
            status = None if self._search_results[row] == PASS else self.search.status(self._search_results[row])
        else:
            status = self._oracle.rejection(row)
        return RecordedStatus.from_status(status, status.plugin if status is not None else "")

    @property
    def feasible(self) -> list[str]:
        """The names of the nodes that go on to scoring: the nominated one alone if it passes, none after an error."""
        if isinstance(self.outcome, ScheduleResult) and not len(self.search.filtered.node_order):
            return [self.outcome.node]
        codes = {name: status.code for name, status in self.statuses.items()}
        return sorted(name for name, code in codes.items() if code == "Success" and "Error" not in codes.values())

    @cached_property
    def totals(self) -> Mapping[str, int] | Status:
        """The total of each feasible node, or the error; a single node is scored too, though a search skips that."""
        if isinstance(self.outcome, ScheduleError):
            return self.outcome.status
        if len(self.search.totals) and self.profile.scores:
            rows = self.nodes.order[self.search.candidates].tolist()
            return {self.nodes[row].name: total for row, total in zip(rows, self.search.totals.tolist(), strict=True)}
        rows = [row for row in map(self.nodes.row, self.feasible) if row is not None]
        totals = self._oracle.totals(rows) if rows else {}
        return totals if isinstance(totals, Status) else {self.nodes[row].name: n for row, n in totals.items()}

    @property
    def best(self) -> list[str]:
        """The names of the nodes with the highest total."""
        if isinstance(self.totals, Status) or not self.totals:
            return []
        highest = max(self.totals.values())
        return sorted(name for name, total in self.totals.items() if total == highest)

    @property
    def failed(self) -> bool:
        """Whether the cycle ended with an error."""
        return isinstance(self.outcome, ScheduleError)

    def fit_error(self, post_filter_message: str = "") -> str:
        """Return the message when no node is feasible, with what PostFilter adds; empty otherwise."""
        outcome = self.outcome
        if not isinstance(outcome, FitError):
            return ""
        return fit_error(
            len(self.nodes),
            outcome.reasons,
            pre_filter_message=outcome.diagnosis.pre_filter_message,
            post_filter_message=post_filter_message,
        )
