"""What one user's hostile objects cost everybody else: other pods' cycles and messages with them over those without.

Run with `python -m benchmarks.hostile`, or with numbers of rows behind it. Two engines take the same turns alternately,
one of them with the hostile objects; figures are lower quartiles of processor time. The others are plain pods, pods
with anti-affinity and pods with spread constraints, of 12 workloads in turn.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from cProfile import Profile
from time import process_time_ns

import msgspec

from benchmarks.cycle import RecordingHost, make_engine, pod, with_anti_affinity, with_spread, without_constraints
from benchmarks.hostile_inputs import ROWS, HostileInput
from benchmarks.timing import show
from kframework.core.pod_engine import PodEngine
from kframework.objects import ApiObject, Pod
from kframework.state.inbox import BindingEnded, Deleted, Upserted

NODES = 1_000
WORKLOADS = 12
#: So many of the others' pods run at a time.
RUNNING = 60
#: Turns of one kind, of which the lower quartile is taken; and how many are taken before the engines change over.
TURNS, BLOCK = 144, 12
SHAPES = (without_constraints, with_anti_affinity, with_spread)

Numbers = dict[str, list[int]]


class Side:
    """One of the two engines, and the others' pods that run in it."""

    def __init__(self) -> None:
        self.engine: PodEngine
        self._effects: RecordingHost
        self.engine, self._effects = make_engine(nodes=NODES)
        self._turn = 0
        self._running: list[Pod] = []

    def apply(self, *objects: ApiObject, deleted: bool = False) -> int:
        """Take these in; return the nanoseconds of processor time."""
        for each in objects:
            self.engine.offer(Deleted(each) if deleted else Upserted(each))
        began = process_time_ns()
        for message in self.engine.inbox.drain():
            self.engine._apply(message)
        return process_time_ns() - began

    def step(self) -> int:
        """Let one pod have its turn; return the nanoseconds of processor time."""
        began = process_time_ns()
        self.engine.step()
        return process_time_ns() - began

    def ended(self) -> Pod | None:
        """Take in that the last binding has ended, and let the watch confirm it; return the pod, None if none was."""
        self._effects.decisions.clear()
        if not self._effects.reservations:
            return None
        reservation = self._effects.reservations.pop()
        self.engine.offer(BindingEnded(reservation.pod.uid, reservation.attempt, None))
        for message in self.engine.inbox.drain():
            self.engine._apply(message)
        bound = reservation.pod.object
        return msgspec.structs.replace(bound, spec=msgspec.structs.replace(bound.spec, node_name=reservation.node_name))

    def turn(self, engine: Callable[[int], Pod]) -> tuple[int, int]:
        """Schedule a pod of the others, confirm it, let the oldest go; return nanoseconds of cycle and messages."""
        self._turn += 1
        messages = self.apply(engine(self._turn))
        cycle = self.step()
        bound = self.ended()
        if bound is not None:
            messages += self.apply(bound)
            self._running.append(bound)
        if len(self._running) > RUNNING:
            messages += self.apply(self._running.pop(0), deleted=True)
        return cycle, messages


def ordinary_pod(turn: int) -> Pod:
    """Make a pod of the others."""
    return pod(turn, turn % WORKLOADS, SHAPES[turn % len(SHAPES)])


def quartile(numbers: list[int]) -> float:
    """Return the lower quartile."""
    return float(sorted(numbers)[len(numbers) // 4])


def measure(row: HostileInput) -> list[object]:
    """Fill a row of the table."""
    sides = [Side(), Side()]
    without, hostile = sides
    for side in sides:
        side.apply(*row.always())
    stalls = [hostile.apply(each) for each in row.present()]
    while row.tried and (took := hostile.step()) and hostile.engine.attempts < len(stalls):
        stalls.append(took)
        hostile.ended()
    gc.collect()
    gc.freeze()
    gc.disable()
    engine = row.others or ordinary_pod
    settled = _measure_alternately(sides, engine, lambda side: None)
    events: Numbers = {"cycle": [], "message": []}
    moves = row.moves()

    def moved(side: Side) -> None:
        if side is hostile:
            _apply_hostile(side, next(moves), events)

    moving = _measure_alternately(sides, engine, moved)
    gc.enable()
    gc.unfreeze()
    plain_message = quartile(settled[without, 1])
    return [
        row.title,
        *(quartile(settled[hostile, kind]) / quartile(settled[without, kind]) for kind in (0, 1)),
        *(quartile(moving[hostile, kind]) / quartile(moving[without, kind]) for kind in (0, 1)),
        quartile(events["message"]) / plain_message,
        max((*stalls, *events["cycle"], *events["message"])) / 1e6,
        max((*settled[hostile, 0], *moving[hostile, 0])) / 1e6,
        (sum(moving[hostile, 0]) + sum(events["cycle"])) / sum(moving[without, 0]),
    ]


def compare_calls(row: HostileInput, turns: int = 36) -> float:
    """Compare the calls in the others' turns with and without the hostile objects; one of them moves at times."""
    engine, events = row.others or ordinary_pod, Numbers(cycle=[], message=[])
    counts = []
    for objects in ((), row.present()):
        side, moves, profile = Side(), row.moves(), Profile()
        side.apply(*row.always(), *objects)
        for _ in range(2 * WORKLOADS):
            side.turn(engine)
        for turn in range(turns):
            if objects and turn % BLOCK == 0:
                _apply_hostile(side, next(moves), events)
            profile.enable()
            side.turn(engine)
            profile.disable()
        counts.append(sum(entry.callcount for entry in profile.getstats()))
    return counts[1] / counts[0]


def _apply_hostile(side: Side, move: ApiObject, events: Numbers) -> None:
    """Let a hostile object come or change; if it is a pod that waits, it has its turn, and then goes."""
    events["message"].append(side.apply(move))
    if isinstance(move, Pod) and not move.spec.node_name:
        waiting = side.engine.queue.count_by_queue()["active"]
        if waiting:
            events["cycle"].append(side.step())
            side.apply(side.ended() or move)
        side.apply(move, deleted=True)


def _measure_alternately(
    sides: list[Side], engine: Callable[[int], Pod], before: Callable[[Side], None]
) -> dict[tuple[Side, int], list[int]]:
    """Give both engines the same turns in blocks; return the nanoseconds of cycles (0) and messages (1) of each."""
    measured: dict[tuple[Side, int], list[int]] = {(side, kind): [] for side in sides for kind in (0, 1)}
    for side in sides:
        for _ in range(4 * WORKLOADS):
            side.turn(engine)
    for _ in range(0, TURNS, BLOCK):
        for side in sides:
            before(side)
            for _ in range(BLOCK):
                for kind, took in enumerate(side.turn(engine)):
                    measured[side, kind].append(took)
    return measured


def _selected_rows() -> Iterator[HostileInput]:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    yield from (ROWS[number - 1] for number in numbers) if numbers else ROWS


def main() -> None:
    """Print the table."""
    headers = ["hostile input", "cycle", "message", "cycle*", "message*", "event", "own ms", "others' ms", "simulate"]
    rows = []
    for row in _selected_rows():
        rows.append(measure(row))
        print(*(f"{cell:.2f}" if isinstance(cell, float) else cell for cell in rows[-1]), sep="  ", flush=True)
    print()
    show(headers, rows)


if __name__ == "__main__":
    main()
