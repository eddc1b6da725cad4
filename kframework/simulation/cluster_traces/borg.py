"""Google's Borg traces of 2019: queries of machine_events and instance_events, exported from BigQuery as CSV.

Machines and alloc instances become nodes and pods, and so do tasks outside of alloc sets; tasks in an alloc instance
use the room that it holds. Amounts are fractions of the largest machine, which has 100 cores and 1 TiB here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kframework.simulation.cluster_traces.cluster import TraceNode, TracePod
from kframework.simulation.cluster_traces.tables import Columns, parse_count, parse_number, read_rows

MACHINE_COLUMNS = Columns(("time", "machine_id", "type", "cpus", "memory"))
INSTANCE_COLUMNS = Columns(
    (
        *("time", "type", "collection_id", "instance_index"),
        *("priority", "alloc_collection_id", "cpus", "memory"),
    )
)

#: What an amount of 1 is: thousandths of a core, and bytes.
_CORES_MILLI, _BYTES = 100_000, 1 << 40
_MICROSECONDS = 1e6
#: The time of events after the end of the trace.
_AFTER_THE_END = 2**63 - 1

#: Types of machine events; the other one is UPDATE.
_ADD, _REMOVE = 1, 2
#: Types of instance events: an instance waits after SUBMIT, QUEUE and ENABLE, and has ended after EVICT, FAIL, FINISH,
#: KILL and LOST. Any event before SCHEDULE may change what it requests; later a pod keeps what it has.
_WAITING, _SCHEDULE = (0, 1, 2), 3
_ENDED = range(4, 9)


def read_borg(machine_events: str, instance_events: str) -> Iterator[TraceNode | TracePod]:
    """Read both tables, in the order of time; only machines and the instances that have not ended are in memory."""
    machines = _Machines()
    for _ in read_rows(machine_events, MACHINE_COLUMNS, machines.add_event):
        pass  # no event is a record of its own
    yield from machines.nodes()
    instances = _Instances()
    yield from read_rows(instance_events, INSTANCE_COLUMNS, instances.add_event)
    yield from instances.remaining()


class _Clock:
    """The time of a table whose rows are in the order of time."""

    def __init__(self) -> None:
        self._last = 0

    def read(self, text: str) -> float:
        """Return the time of a row in seconds, infinite after the end of the trace; ValueError for an earlier one."""
        time = parse_count("time", text)
        if time < self._last:
            raise ValueError(f"time goes back from {self._last} to {time}: sort the rows with ORDER BY time")
        self._last = time
        return time / _MICROSECONDS if time < _AFTER_THE_END else math.inf


class _Machine:
    """A machine: the most that it ever had, and when it was added, removed and added again."""

    def __init__(self, added: float) -> None:
        self.added = added
        self.cpus = 0.0
        self.memory = 0.0
        self.down: list[tuple[float, float]] = []

    @property
    def is_down(self) -> bool:
        return bool(self.down) and self.down[-1][1] == math.inf


class _Machines:
    def __init__(self) -> None:
        self._clock = _Clock()
        self._machines: dict[str, _Machine] = {}

    def add_event(self, time: str, machine_id: str, type: str, cpus: str, memory: str) -> None:
        seconds, kind = self._clock.read(time), parse_count("type", type)
        if seconds == math.inf:
            return
        machine = self._machines.setdefault(machine_id, _Machine(seconds))
        machine.cpus = max(machine.cpus, parse_number("cpus", cpus or "0"))
        machine.memory = max(machine.memory, parse_number("memory", memory or "0"))
        if kind == _REMOVE and not machine.is_down:
            machine.down.append((seconds, math.inf))
        elif kind == _ADD and machine.is_down:
            machine.down[-1] = machine.down[-1][0], seconds

    def nodes(self) -> Iterator[TraceNode]:
        """Return the machines with a known capacity."""
        for machine_id, machine in self._machines.items():
            if machine.cpus and machine.memory:
                name = f"machine-{machine_id}"
                cpu, memory = _format_cpus(machine.cpus), _format_memory(machine.memory)
                yield TraceNode(name, cpu, memory, arrival=machine.added, down=machine.down)


class _Instance:
    """An instance that was submitted and has not ended."""

    __slots__ = ("arrival", "cpus", "memory", "priority", "start")

    def __init__(self, arrival: float) -> None:
        self.arrival = arrival
        self.start: float | None = None
        self.cpus = 0.0
        self.memory = 0.0
        self.priority = 0


class _Instances:
    def __init__(self) -> None:
        self._clock = _Clock()
        self._instances: dict[tuple[str, str], _Instance] = {}

    def add_event(
        self, time: str, type: str, collection: str, index: str, priority: str, alloc: str, cpus: str, memory: str
    ) -> TracePod | None:
        """Apply an event; return the pod of an instance that has ended."""
        seconds, kind = self._clock.read(time), parse_count("type", type)
        if seconds == math.inf or alloc not in ("", "0"):
            return None
        key = collection, index
        if kind in _ENDED:
            instance = self._instances.pop(key, None)
            return None if instance is None else _create_pod(key, instance, seconds)
        if kind in (*_WAITING, _SCHEDULE) and key not in self._instances:
            self._instances[key] = _Instance(seconds)
        instance = self._instances.get(key)
        if instance is not None and instance.start is None:
            instance.cpus, instance.memory = parse_number("cpus", cpus or "0"), parse_number("memory", memory or "0")
            instance.priority = parse_count("priority", priority or "0")
            if kind == _SCHEDULE:
                instance.start = seconds
        return None

    def remaining(self) -> Iterator[TracePod]:
        """Return the pods of the instances that have not ended."""
        for key, instance in self._instances.items():
            yield _create_pod(key, instance, math.inf)


def _create_pod(key: tuple[str, str], instance: _Instance, end: float) -> TracePod:
    """Create the pod of a run of an instance; an instance that was evicted and submitted again becomes several."""
    return TracePod(
        f"{key[0]}-{key[1]}-{round(instance.arrival * _MICROSECONDS)}",
        _format_cpus(instance.cpus),
        _format_memory(instance.memory),
        instance.arrival,
        instance.arrival if instance.start is None else instance.start,
        end,
        priority=instance.priority,
    )


def _format_cpus(fraction: float) -> str:
    return f"{math.ceil(fraction * _CORES_MILLI)}m"


def _format_memory(fraction: float) -> str:
    return str(math.ceil(fraction * _BYTES))
