"""Cached searches: on which nodes some claims can be allocated, recomputed where devices have changed."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kframework.objects import ResourceClaim
from kframework.plugins.dynamic_resources.allocator import Allocations, BudgetExceeded, ChosenDevice
from kframework.plugins.dynamic_resources.devices import Devices
from kframework.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from kframework.plugins.dynamic_resources.pools import Pool
from kframework.plugins.dynamic_resources.requests import ClaimsOptions, claims_options
from kframework.state.nodes import NodeInfo
from kframework.values.scores import Rows, Scores

# The cached answers of a scope.
FITS, TOO_FEW, INVALID_POOLS = range(3)
#: Errors, which are larger than all rejections.
ERROR, TIMED_OUT = 14, 15
_UNKNOWN = -1

#: The scope of nodes whose pools are invalid.
_NO_SCOPE = 0

_NO_SCOPES: list[int] = []

#: The highest rank of an alternative is that of the first (kube-scheduler's FirstAvailableDeviceRequestMaxSize).
RANKS = 8

#: The step limit of all searches of a pod's cycle, as a multiple of that of one search.
_TOTAL_STEPS_FACTOR = 10

#: The number of cached kinds of claims, most recently used.
_MAX_CACHED = 256


class Feasibilities:
    """Cached results by the requests of claims; dropped when a class changes.

    `budget` is the step limit of a search on a node.
    """

    def __init__(self, devices: Devices, budget: int | None) -> None:
        self.budget: int | None = budget
        self._devices = devices
        self._cache: OrderedDict[tuple[bytes, ...], Feasibility] = OrderedDict()
        devices.classes.on_change(lambda old, new: self._cache.clear())

    def for_claims(self, claims: Sequence[ResourceClaim]) -> Feasibility:
        """Return the cached results for claims; AllocationError for invalid requests."""
        key = tuple(msgspec.json.encode(claim.spec.devices, order="deterministic") for claim in claims)
        feasibility = self._cache.get(key)
        if feasibility is None:
            options = claims_options(claims, self._devices.classes)
            feasibility = self._cache[key] = Feasibility(self._devices, claims, options, self.budget)
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return feasibility


class StepBudget:
    """A limit on the searches for one pod: none starts after one exceeded its steps, or all of them a multiple.

    So a pod's cycle ends, however many nodes there are. Results so far are cached: the next attempt continues from
    there.
    """

    def __init__(self, budget: int | None) -> None:
        self.is_exhausted: bool = False
        self._remaining: float = math.inf if budget is None else _TOTAL_STEPS_FACTOR * budget

    def spend(self, steps: int) -> None:
        self._remaining -= steps
        self.is_exhausted = self.is_exhausted or self._remaining < 0


class DevicePlacement(NamedTuple):
    """The result of a search: the devices `chosen` for each claim, among `pools` with `allocated` devices."""

    chosen: Sequence[Sequence[ChosenDevice]]
    pools: Sequence[Pool]
    allocated: Allocations


#: Returns the quality of a placement; constant as long as no device of its pools is allocated or released.
Measure = Callable[[DevicePlacement], int]


class Feasibility:
    """The search results for claims on each node, kept current; claims with the same requests share one.

    Nodes with the same pools, counting only useful devices, share a scope. The columns are by scope: `_answers`, and
    the values `_measured` for results.
    """

    def __init__(
        self, devices: Devices, claims: Sequence[ResourceClaim], options: ClaimsOptions, budget: int | None
    ) -> None:
        self._devices = devices
        self._claims = claims
        self._options = options
        self._budget = budget
        self._steps = 0
        self._pools_log = devices.pools.log.reader()
        self._allocated_log = devices.allocated.log.reader()
        self._epoch = -1
        self._scope_of: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._scopes: dict[tuple[str | Pool, ...], int] = {}
        self._measured: dict[Measure, NDArray[np.int64]] = {rank: np.zeros(0, dtype=np.int64)}
        self._forget_scopes()

    def _forget_scopes(self) -> None:
        self._scopes.clear()
        #: By scope, the pools to search, and a node that can access them.
        self._scope_pools: list[tuple[NodeInfo, tuple[Pool, ...]] | None] = [None]
        self._chosen: dict[int, Sequence[Sequence[ChosenDevice]]] = {}
        self._with_pool: dict[tuple[str, str], list[int]] = {}
        self._answers = np.full(64, _UNKNOWN)
        self._answers[_NO_SCOPE] = ERROR
        self._measured = {measure: np.zeros(64, dtype=np.int64) for measure in self._measured}
        self._scope_of.fill(_UNKNOWN)

    # -- results -------------------------------------------------------------------------------------------------------

    def check_rows(self, rows: Rows, step_budget: StepBudget) -> Scores:
        """Return for each row whether the claims can be allocated on its node."""
        scopes = self._scopes_of(rows)
        answers = self._answers[scopes]
        unknown = (answers == _UNKNOWN).nonzero()[0]
        if len(unknown):
            step_budget.is_exhausted = step_budget.is_exhausted or int(answers.max()) == TIMED_OUT
            answers[unknown] = self._search_unknown(scopes[unknown].tolist(), step_budget)
        return answers

    def _search_unknown(self, scopes: list[int], step_budget: StepBudget) -> list[int]:
        answers = dict.fromkeys(scopes, TIMED_OUT)
        for scope in answers:
            if step_budget.is_exhausted:
                break
            before = self._steps
            answers[scope] = self._search(scope)
            step_budget.spend(self._steps - before)
            step_budget.is_exhausted = step_budget.is_exhausted or answers[scope] == TIMED_OUT
        return [answers[scope] for scope in scopes]

    def measure_rows(self, measure: Measure, rows: Rows, step_budget: StepBudget) -> Scores:
        """Return the measure of the devices for each row where the claims can be allocated."""
        if measure not in self._measured:
            self._measured[measure] = np.zeros(len(self._answers), dtype=np.int64)
            self._answers[_NO_SCOPE + 1 :] = _UNKNOWN
        self.check_rows(rows, step_budget)
        return self._measured[measure][self._scopes_of(rows)]

    def chosen_devices(self, node: NodeInfo) -> Sequence[Sequence[ChosenDevice]] | None:
        """Return the devices of each claim on a node; None if they cannot be allocated.

        They are those of the search behind `check_rows`.
        """
        self._refresh()
        scope = self._scope_of.item(node.row)
        if scope == _UNKNOWN:
            scope = self._scope_of[node.row] = self._scope(node)
        answer = self._answers.item(scope)
        if answer == _UNKNOWN:
            answer = self._search(scope)
        return self._chosen[scope] if answer == FITS else None

    # -- scopes --------------------------------------------------------------------------------------------------------

    def _scopes_of(self, rows: Rows) -> NDArray[np.int64]:
        self._refresh()
        scopes = self._scope_of[rows]
        unknown = (scopes == _UNKNOWN).nonzero()[0]
        if len(unknown):
            row_numbers = np.arange(len(self._scope_of))[rows]
            for row in row_numbers[unknown].tolist():
                self._scope_of[row] = self._scope(self._devices.nodes[row])
            scopes = self._scope_of[rows]
        return scopes

    def _refresh(self) -> None:
        pools, nodes = self._devices.pools, self._devices.nodes
        pools.refresh()
        rows = self._pools_log.read_new()
        if rows is None or self._epoch != pools.epoch or len(self._scope_of) != nodes.capacity:
            self._epoch = pools.epoch
            self._scope_of = np.full(nodes.capacity, _UNKNOWN)
        else:
            self._scope_of[rows] = _UNKNOWN
        changed = self._allocated_log.read_new()
        if changed is None or (changed and len(self._scopes) > 2 * len(nodes) + 64):
            self._forget_scopes()
        else:
            for device in changed:
                self._answers[self._with_pool.get(device[:2], _NO_SCOPES)] = _UNKNOWN

    def _scope(self, node: NodeInfo) -> int:
        try:
            accessible = self._devices.pools.for_node(node)
        except AllocationError:
            return _NO_SCOPE
        pools = tuple(pool for pool in accessible if pool.local or self._may_help(pool, node))
        of_node = any(pool.per_device for pool in pools)
        key: tuple[str | Pool, ...] = (node.name, *pools) if of_node else pools
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = len(self._scope_pools)
            self._scope_pools.append((node, pools))
            for pool in pools:
                self._with_pool.setdefault(pool.id, []).append(scope)
            if scope == len(self._answers):
                self._answers = np.concatenate((self._answers, np.full(scope, _UNKNOWN)))
                for measure, column in self._measured.items():
                    self._measured[measure] = np.concatenate((column, np.zeros(scope, dtype=np.int64)))
        elif of_node:
            # The node has other labels now, and may access other devices of the same pools.
            self._scope_pools[scope] = node, pools
            self._answers[scope] = _UNKNOWN
        return scope

    def _may_help(self, pool: Pool, node: NodeInfo) -> bool:
        """Whether a pool that many nodes access has a requested device, or is invalid."""
        if not pool.is_usable:
            return True
        options = [option for requests in self._options for options in requests for option in options]
        try:
            matches = self._devices.selection.matches
            return any(matches(option, device, node) for option in options for device in pool.devices)
        except AllocationError:
            return True

    def _search(self, scope: int) -> int:
        known = self._scope_pools[scope]
        assert known is not None
        node, pools = known
        try:
            search = self._devices.search(self._claims, self._options, node, pools)
            try:
                chosen = search.run(self._budget)
            finally:
                self._steps += search.steps
        except InvalidPools:
            answer = INVALID_POOLS
        except BudgetExceeded:
            answer = TIMED_OUT
        except AllocationError:
            answer = ERROR
        else:
            answer = TOO_FEW
            if chosen is not None:
                answer, self._chosen[scope] = FITS, chosen
                placement = DevicePlacement(chosen, pools, self._devices.allocated)
                for measure, column in self._measured.items():
                    column[scope] = measure(placement)
        self._answers[scope] = answer
        return answer


def rank(placement: DevicePlacement) -> int:
    """Return the sum of the ranks of the alternatives chosen for requests that have some."""
    options = {(number, each.option) for number, of_claim in enumerate(placement.chosen) for each in of_claim}
    return sum(RANKS - option.index for _, option in options if option.subrequest)
