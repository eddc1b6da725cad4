"""What many worlds came to: what happened how often, what did not hold, and whether the processes grew."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.faults.fault_schedule import Health
from tests.faults.parallel_worlds import FinishedWorld
from tests.faults.scheduler_run import Termination
from tests.support.faulty_transport import Rates

__all__ = ["KINDS", "Summary"]

#: After so many worlds all caches of a process are filled; from then on it may hold so many times the objects at most.
WARM, GROWTH = 10, 1.1

#: All that is to happen in a long run, as it is counted.
KINDS = frozenset(
    [
        *(f"fault: {name}" for name in (*Rates.__struct_fields__, "connection refused", "connection closed")),
        *(f"trouble: {how}" for how in Termination),
        *(f"trouble: extender: {fault}" for fault in ("error", "late", "nonsense", "refusal")),
        *(f"trouble: plugin raised in {hook}" for hook in ("reserve", "pre_bind")),
        *(f"trouble: {what}" for what in ("API server restarted", "configuration reloaded", "time jumped")),
        *(f"trouble: {what}" for what in ("preemptions", "pods nominated", "waits on Permit", "pods with volumes")),
        *(f"trouble: pods with {asking}" for asking in ("claims of templates", "extended resources that are devices")),
        *(f"trouble: {what}" for what in ("pods that share claims", "claims deleted", "classes deleted")),
        *(f"trouble: devices {what}" for what in ("tainted", "tainted by rules", "ready", "failed")),
        *(f"trouble: {what}" for what in ("pools published anew", "pools withdrawn")),
        *(f"trouble: outside: source {fares}" for fares in Health if fares not in (Health.HEALTHY, Health.FLAPPING)),
        *(f"deleted: {what}" for what in ("pods", "nodes", "jobs")),
    ]
)


class Summary:
    """The sums over finished worlds."""

    def __init__(self) -> None:
        self.seeds: set[int] = set()
        self.pods = 0
        self.failures: dict[int, list[str]] = {}
        self._counts: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._pods: Counter[str] = Counter()
        self._objects: defaultdict[int, list[int]] = defaultdict(list)
        self._peak = 0

    def add(self, finished: FinishedWorld) -> None:
        """Count a world in."""
        order, result = finished.order, finished.result
        self.seeds.add(order.seed)
        self._counts[f"worlds: {order.engine}"] += 1
        if finished.problems:
            self.failures[order.seed] = finished.problems
        if result is None:
            return
        self.pods += result.pods
        self._counts += Counter(result.counts)
        self._counts.update(pods=result.pods, bindings=result.bindings, attempts=result.attempts)
        self._counts["seconds of virtual time"] += round(result.virtual)
        self._pods[order.engine] += result.pods
        self._seconds[order.engine] += result.seconds  # type: ignore[assignment]  # a fraction, too
        self._objects[finished.pair].append(result.objects)
        self._peak = max(self._peak, result.peak)

    @property
    def growing(self) -> list[str]:
        """The pairs whose first process holds more and more."""
        return [
            f"the process of pair {pair} holds {max(held[-3:])} objects, and {max(held[:WARM])} at first"
            for pair, held in sorted(self._objects.items())
            if len(held) > 2 * WARM and min(held[-3:]) > GROWTH * max(held[:WARM])
        ]

    @property
    def missing_kinds(self) -> list[str]:
        """What never happened."""
        return sorted(KINDS - self._counts.keys())

    def __str__(self) -> str:
        lines = [f"{count:>12,}  {what}" for what, count in sorted(self._counts.items())]
        lines += [
            f"{1000 * self._seconds[engine] / pods:>12.2f}  ms of CPU for a pod of a world of {engine}"
            for engine, pods in sorted(self._pods.items())
            if pods
        ]
        lines.append(f"{self._peak / 1024:>12.0f}  MiB at most in a process")
        lines.append(
            f"{len(KINDS) - len(self.missing_kinds):>12,}  of {len(KINDS)} kinds happened; not: {self.missing_kinds}"
        )
        held = [len(objects) for objects in self._objects.values()]
        lines.append(f"{max(held, default=0):>12,}  worlds at most in a process; {self.growing or 'none grew'}")
        seeds = f": seeds {sorted(self.failures)[:20]}" if self.failures else ""
        return "\n".join([*lines, f"{len(self.failures):>12,}  worlds failed{seeds}"])
