"""Cached rejections of plugins that answer by domain, which follow the pods that move.

A pod that comes to a node or leaves it changes the numbers of its domain in each topology. So only these domains are
looked at again, and only if one of them opens or closes are its nodes found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kframework.core.cycle.answer_cache import FEW, AnswerColumns
from kframework.core.cycle.rejections import DOMAINS, PASS, StatusTable, plugin_rejection
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.steps import FilterStep
from kframework.errors import FAULTS
from kframework.framework.cycle_state import CycleState
from kframework.framework.domain_limits import DomainLimit
from kframework.state.columns import Column
from kframework.state.nodes import NodeTable
from kframework.state.pods import PendingPod
from kframework.values.scores import Scores


class DomainColumns(AnswerColumns):
    """The columns of a plan, with the rejections by domain of plugins that sign the pod."""

    def __init__(self, nodes: NodeTable, filters: tuple[FilterStep, ...], below: AnswerColumns) -> None:
        super().__init__(nodes, nodes.pod_log, filters, (), below)
        self._answers = below
        self.table: StatusTable = StatusTable(DOMAINS)
        self.totals: Column = below.totals
        self._node_log = nodes.node_log.reader()
        #: The limits of the last call with the order of their plugins, and the rejection of each domain by its code.
        self._limits: list[tuple[int, DomainLimit]] = []
        self._by_domain: list[Column] = []
        #: The rejection of all nodes by a plugin that failed.
        self._fault = PASS

    @property
    def nbytes(self) -> int:
        """The memory of the columns and of the numbers of pods that they follow, in bytes."""
        by_domain = sum(column.values.nbytes for column in self._by_domain)
        return super().nbytes - self.totals.values.nbytes + self._answers.nbytes + 2 * by_domain

    def catch_up(self, profile: Profile, state: CycleState, pod: PendingPod) -> list[int] | None:
        """Bring the rows up to date that changed, and the nodes of domains that open or close."""
        rows = self._answers.catch_up(profile, state, pod)
        if rows == []:
            return rows
        before, was_faulty, answers = self._limits, self._fault != PASS, self._answers
        self._ask_limits(profile, state, pod)
        self.has_faults: bool = self.table.faults > 0 or answers.has_faults
        self.has_faulty_scores: bool = answers.has_faulty_scores
        if not self._limits and self._fault == PASS:
            # Without limits the columns are those of the other plugins.
            self.rejections, self.passing, self.rejected = answers.rejections, answers.passing, answers.rejected
            return rows
        if self.passing is answers.passing:
            self.rejections: Column = Column(len(self.passing))
            self.passing: NDArray[np.bool_] = self.passing.copy()
        if rows is None or was_faulty or self._fault != PASS or len(self._limits) != len(before):
            self._by_domain = [_by_domain(order, limit) for order, limit in self._limits]
            self._node_log.read_new()
            self._combine(slice(None))
            return None
        # A node with other labels is in other domains.
        looked_at = rows if len(rows) <= FEW and self._node_log.read_new() == [] else None
        turned = [self._find_turned(index, known, looked_at) for index, known in enumerate(before)]
        for index, codes in enumerate(turned):
            if codes:
                self._combine_domains(index, codes)
        if looked_at is None:
            self._combine(self._nodes.positions[rows])
        else:
            for row in rows:
                self._combine_row(row)
        return rows

    def _ask_limits(self, profile: Profile, state: CycleState, pod: PendingPod) -> None:
        """Ask all plugins for their limits, up to the first that fails."""
        self._limits = []
        if self._fault != PASS:
            self.table.clear()
            self._fault = PASS
        for step in profile.matching_steps(self.filters):
            assert step.limits is not None
            try:
                for limit in step.limits(state, pod, self._nodes):
                    if type(limit) is not DomainLimit:
                        raise TypeError(f"answered {limit!r}, which is not a DomainLimit")
                    self._limits.append((step.order, limit))
            except FAULTS as error:
                status = step.fault_status(step.name, "filter_domains", error)
                self._fault = self.table.encode(step.order, status)
                return

    def _find_turned(self, index: int, before: tuple[int, DomainLimit], rows: list[int] | None) -> list[int]:
        """Look at the domains of these rows again, or at all; return the codes of those that changed."""
        order, limit = self._limits[index]
        topology, known, turned = limit.topology, self._by_domain[index], list[int]()
        if rows is None or (order, limit) != before:
            column = self._by_domain[index] = _by_domain(order, limit)
            if topology is not before[1].topology:
                return [0, *topology.occupied.tolist()]
            # Domains that are new since have only nodes that changed.
            turned += (column.values[: len(known.values)] != known.values).nonzero()[0].tolist()
            return turned
        for row in rows:
            code = topology.cells[row]
            pods = limit.tally.cells[code]
            bits = limit.unlabelled if not code else 0 if limit.least <= pods <= limit.most else limit.bits
            rejection = plugin_rejection(order) | bits if bits else PASS
            if known.cells[code] != rejection:
                known.cells[code] = rejection
                # The only node of its domain is among the rows that changed.
                if topology.sizes.cells[code] > 1:
                    turned.append(code)
        return turned

    def _combine_row(self, row: int) -> None:
        position = int(self._nodes.positions[row])
        rejection = self._answers.rejections.cells[position]
        for (_, limit), column in zip(self._limits, self._by_domain, strict=True):
            mine = column.cells[limit.topology.cells[row]]
            if mine != PASS:
                rejection = min(rejection, mine)
                break
        self.rejections.cells[position] = rejection
        if self.passing[position] != (rejection == PASS):
            self.passing[position] = rejection == PASS
            self.rejected += 1 if rejection != PASS else -1

    def _combine_domains(self, index: int, codes: list[int]) -> None:
        """Set the first rejection of the nodes in these domains of a limit."""
        order, topology = self._nodes.order, self._limits[index][1].topology
        by_code = [topology.positions(code, order) for code in codes]
        positions = np.concatenate(by_code)
        if len(self._limits) == 1:
            self._set(positions, self._by_domain[index].values[codes].repeat([len(each) for each in by_code]))
        else:
            self._combine(positions)

    def _combine(self, positions: slice | NDArray[np.int64]) -> None:
        """Set the first rejection of the nodes at these positions."""
        rows = self._nodes.order[positions]
        by_domain: Scores = np.full(len(rows), self._fault)
        for (_, limit), column in zip(reversed(self._limits), reversed(self._by_domain), strict=True):
            mine = column.values[limit.topology.values[rows]]
            by_domain = np.where(mine != PASS, mine, by_domain)
        self._set(positions, by_domain)

    def _set(self, positions: slice | NDArray[np.int64], by_domain: Scores) -> None:
        """Set the rejections at these positions: by domain, or those of the other plugins if they come first."""
        rejections = np.minimum(by_domain, self._answers.rejections.values[positions])
        self.rejections.values[positions] = rejections
        self.passing[positions] = rejections == PASS
        self.rejected: int = len(self.passing) - int(np.count_nonzero(self.passing))


def _by_domain(order: int, limit: DomainLimit) -> Column:
    """Return the rejection of each domain by its code."""
    bits = limit.reasons()
    column = Column(len(bits))
    column.values[:] = np.where(bits, plugin_rejection(order) | (bits & 0xFFFFFFFF), PASS)
    return column
