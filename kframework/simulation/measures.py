"""Measures of a simulation in a few numbers: how long pods waited, how full nodes were, which free room was of use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from kframework.client.transitions import has_ended
from kframework.core.cycle.records import Record
from kframework.in_memory.kind_store import Change
from kframework.objects import Node, Pod
from kframework.objects.requests import allocatable, fit_requests
from kframework.scheduler.scheduler import E
from kframework.simulation.simulation import Simulation

#: The resources whose utilisation is measured; and the count of pods, which limits where a pod fits.
_CPU, _MEMORY, _PODS = "cpu", "memory", "pods"
#: The digits after the point of each measure.
DIGITS = 6


class SimulationMeasures(Record, frozen=True):
    """The measures of a simulation.

    Attributes:
        pods: the pods that came without a node.
        bound: how many of them were bound.
        pending: how many of them exist at the end and were not bound.
        wait_p50: the median of the virtual seconds from creation to binding, of bound pods; None if there are none.
        wait_p99: their 99th percentile.
        cpu: the requested share of the nodes' allocatable CPU, averaged over time; None without nodes.
        memory: the same share of the memory.
        fragmentation: of a random pod and a random resource that it requests, the share of the free amount that is
            on nodes where the pod does not fit, averaged over time. The pods are those of the run.
        spread: the standard deviation of the requested share of CPU between nodes, averaged over time: 0 if all nodes
            are equally full.
        preempted: the pods that preemption evicted.
        seconds: the virtual time that passed.
    """

    pods: int
    bound: int
    pending: int
    wait_p50: float | None
    wait_p99: float | None
    cpu: float | None
    memory: float | None
    fragmentation: float
    spread: float
    preempted: int
    seconds: float


class _LoadChange(NamedTuple):
    """Amounts that a node gains (or loses, if `sign` is -1): allocatable ones, or those that pods on it request."""

    at: float
    node: str
    amounts: Mapping[str, int]
    sign: int
    is_allocatable: bool


class _Usage(NamedTuple):
    """The amounts of all nodes together, their fragmentation, and how far their utilisation differs."""

    cpu: float
    requested_cpu: float
    memory: float
    requested_memory: float
    fragmentation: float
    spread: float


#: The requests of pods, sorted by resource.
_Demand = tuple[tuple[str, int], ...]


class MeasureRecorder:
    """Follows the pods and nodes of a simulation that has not run yet.

    A pod counts on its node from binding until it ends or is deleted, with the requests that it was bound with.
    """

    def __init__(self, simulation: Simulation[E]) -> None:
        self._simulation = simulation
        self._created = dict[str, float]()
        self._waits = dict[str, float]()
        self._demands = Counter[_Demand]()
        self._loads = dict[str, tuple[str, Mapping[str, int]]]()
        self._changes: list[_LoadChange] = []
        for subject in (*simulation.objects(Node), *simulation.objects(Pod)):
            self._receive(Change(0, None, subject))
        simulation.cluster.subscribe([Node, Pod], self._receive)

    @property
    def measures(self) -> SimulationMeasures:
        """The measures until now; of one that has ended by itself, averages end with the last pod that came or went."""
        simulation = self._simulation
        unbound = {pod.metadata.uid for pod in simulation.objects(Pod) if not pod.spec.node_name}
        usage = _LoadHistory(self._changes, PodDemands(self._demands)).average(self._end)
        return SimulationMeasures(
            len(self._created),
            len(self._waits),
            len(unbound & self._created.keys()),
            self._wait(0.5),
            self._wait(0.99),
            _rounded(usage.requested_cpu / usage.cpu if usage.cpu else None),
            _rounded(usage.requested_memory / usage.memory if usage.memory else None),
            _rounded(usage.fragmentation),
            _rounded(usage.spread),
            sum(len(each.victims) for each in simulation.preemptions),
            _rounded(simulation.seconds),
        )

    @property
    def node_use(self) -> dict[str, dict[str, float]]:
        """The requested share of CPU and memory of each node, by its name, averaged over the same time."""
        return _LoadHistory(self._changes, PodDemands(self._demands)).average_nodes(self._end)

    @property
    def _end(self) -> float:
        simulation = self._simulation
        return self._changes[-1].at if simulation.is_over and self._changes else simulation.clock.now()

    def _wait(self, share: float) -> float | None:
        waits = [*self._waits.values()]
        return _rounded(np.quantile(waits, share, method="inverted_cdf")) if waits else None

    def _receive(self, change: Change) -> None:
        subject = change.subject
        if isinstance(subject, Pod):
            self._receive_pod(subject, exists=change.new is not None)
            return
        old, new = (allocatable(each) if isinstance(each, Node) else {} for each in (change.old, change.new))
        if old != new:
            self._note(subject.metadata.name, old, -1, is_allocatable=True)
            self._note(subject.metadata.name, new, 1, is_allocatable=True)

    def _receive_pod(self, pod: Pod, *, exists: bool) -> None:
        uid, node, now = pod.metadata.uid, pod.spec.node_name, self._simulation.clock.now()
        if not node and uid not in self._created:
            self._created[uid] = now
            self._demands[_demand_of(pod)] += 1
        if node and uid in self._created and uid not in self._waits:
            self._waits[uid] = now - self._created[uid]
        is_on_node = bool(node) and exists and not has_ended(pod)
        if is_on_node and uid not in self._loads:
            self._loads[uid] = node, {**fit_requests(pod.spec), _PODS: 1}
            self._note(*self._loads[uid], 1)
        elif not is_on_node and uid in self._loads:
            self._note(*self._loads.pop(uid), -1)

    def _note(self, node: str, amounts: Mapping[str, int], sign: int, *, is_allocatable: bool = False) -> None:
        self._changes.append(_LoadChange(self._simulation.clock.now(), node, amounts, sign, is_allocatable))


class PodDemands:
    """The requests of the pods of a run: what is free on a node is of use to the pods that fit there.

    Attributes:
        resources: the columns of its tables: what the pods request, and cpu, memory and pods.
    """

    def __init__(self, demands: Mapping[_Demand, int]) -> None:
        names = {name for demand in demands for name, _ in demand} | {_CPU, _MEMORY, _PODS}
        self.resources: tuple[str, ...] = tuple(sorted(names))
        self._pods = sum(demands.values())
        rows = [(dict(demand), count) for demand, count in demands.items() if any(amount for _, amount in demand)]
        table = np.array([[demand.get(name, 0) for name in self.resources] for demand, _ in rows], np.int64)
        self._table = table.reshape(len(rows), len(self.resources))
        counts = np.array([count for _, count in rows], float)[:, None]
        requested = self._table > 0
        self._table[:, self.resources.index(_PODS)] = 1
        #: How probable a random pod and a resource of it are.
        self._weights = requested * counts / max(counts.sum(), 1.0) / np.maximum(requested.sum(1, keepdims=True), 1)

    @classmethod
    def from_pods(cls, pods: Iterable[Pod]) -> PodDemands:
        """Count the requests of pods."""
        return cls(Counter(map(_demand_of, pods)))

    def __len__(self) -> int:
        return self._pods

    def unusable(self, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return which part of the free amounts on each node is of no use to a random pod that requests some."""
        misfits = np.zeros((len(free), len(self._table)), bool)
        for column in range(len(self.resources)):
            misfits |= free[:, column, None] < self._table[:, column]
        amounts: NDArray[np.float64] = free * (misfits @ self._weights)
        return amounts

    def fragmentation(self, free: NDArray[np.int64]) -> float:
        """Return the fragmentation of the free amounts of all nodes, which are not negative."""
        return _share(self.unusable(free).sum(0), free.sum(0))


class _LoadHistory:
    """The amounts of all nodes over time."""

    def __init__(self, changes: Sequence[_LoadChange], demands: PodDemands) -> None:
        self._columns = {name: index for index, name in enumerate(demands.resources)}
        self._rows = {name: index for index, name in enumerate(dict.fromkeys(each.node for each in changes))}
        self._changes = changes
        self._demands = demands
        shape = len(self._rows), len(self._columns)
        self._allocatable, self._requested = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self._free, self._unusable = np.zeros(shape), np.zeros(shape)

    def average(self, end: float) -> _Usage:
        """Average over the time until `end`; without any, return the state at the end."""
        if not self._changes:
            return _Usage(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        times, states = zip(*self._replay(), strict=True)
        weights = np.diff((*times, end))
        weights[-1] += not weights.any()
        return _Usage(*np.average(states, axis=0, weights=weights).tolist())

    def average_nodes(self, end: float) -> dict[str, dict[str, float]]:
        """Average the shares of each node over the time until `end`; without any, return the state at the end."""
        since = np.full(len(self._rows), self._changes[0].at if self._changes else end)
        sums = np.zeros((2, *self._requested.shape))
        for change in self._changes:
            self._add_time(sums, since, self._rows[change.node], change.at)
            self._apply([change])
        for row in self._rows.values():
            self._add_time(sums, since, row, end)
        requested, allocatable = sums if sums.any() else (self._requested, self._allocatable)
        return {
            node: {
                resource: _rounded(requested[row, column] / allocatable[row, column])
                for resource in (_CPU, _MEMORY)
                if allocatable[row, column := self._columns[resource]]
            }
            for node, row in self._rows.items()
        }

    def _add_time(self, sums: NDArray[np.float64], since: NDArray[np.float64], row: int, at: float) -> None:
        """Add what a node requested and offered since its last change, times the seconds."""
        sums[0, row] += self._requested[row] * (at - since[row])
        sums[1, row] += self._allocatable[row] * (at - since[row])
        since[row] = at

    def _replay(self) -> Iterator[tuple[float, _Usage]]:
        """Yield the state after all changes of a time."""
        cpu, memory = self._columns[_CPU], self._columns[_MEMORY]
        for at, changes in groupby(self._changes, attrgetter("at")):
            self._recount_room(self._apply(changes))
            allocatable, requested = self._allocatable.sum(0), self._requested.sum(0)
            yield (
                at,
                _Usage(
                    allocatable[cpu],
                    requested[cpu],
                    allocatable[memory],
                    requested[memory],
                    _share(self._unusable.sum(0), self._free.sum(0)),
                    self._deviation(cpu),
                ),
            )

    def _deviation(self, column: int) -> float:
        """Return the standard deviation of the requested share of a resource between the nodes that have it."""
        allocatable = self._allocatable[:, column]
        nodes = allocatable > 0
        return float(np.std(self._requested[nodes, column] / allocatable[nodes])) if nodes.any() else 0.0

    def _recount_room(self, rows: list[int]) -> None:
        """Count what is free on these nodes, and which part of it is of no use to a random pod."""
        free = np.maximum(self._allocatable[rows] - self._requested[rows], 0)
        self._free[rows], self._unusable[rows] = free, self._demands.unusable(free)

    def _apply(self, changes: Iterable[_LoadChange]) -> list[int]:
        changed = dict[int, None]()
        for change in changes:
            row = self._rows[change.node]
            table = self._allocatable if change.is_allocatable else self._requested
            for name, amount in change.amounts.items():
                if name in self._columns:
                    table[row, self._columns[name]] += change.sign * amount
            changed[row] = None
        return [*changed]


def _demand_of(pod: Pod) -> _Demand:
    return tuple(sorted(fit_requests(pod.spec).items()))


def _share(unusable: NDArray[np.float64], free: NDArray[np.float64] | NDArray[np.int64]) -> float:
    """Return the fragmentation of the free amounts by resource; a resource without any adds nothing."""
    has_room = free > 0
    return float((unusable[has_room] / free[has_room]).sum())


@overload
def _rounded(value: float) -> float: ...
@overload
def _rounded(value: float | None) -> float | None: ...
def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), DIGITS)
