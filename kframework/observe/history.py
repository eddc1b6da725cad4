"""The recent history: an observer that keeps the last decisions and bindings for pages and reports."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from kframework.core.cycle.records import Binding, Decision, Observer

R = TypeVar("R")


class RecordBuffer(Generic[R]):
    """The last records with a total weight of at most `most`, and the very last one of any weight."""

    def __init__(self, most: int, weight: Callable[[R], int]) -> None:
        self._most = most
        self._weigh = weight
        self._records: deque[R] = deque()
        self._weight = 0

    def put(self, record: R) -> Sequence[R]:
        """Keep a record, and return those that are dropped for it, the oldest first."""
        self._records.append(record)
        self._weight += self._weigh(record)
        if self._weight <= self._most:
            return ()
        forgotten: list[R] = []
        while self._weight > self._most and len(self._records) > 1:
            forgotten.append(self._records.popleft())
            self._weight -= self._weigh(forgotten[-1])
        return forgotten

    def recent(self, count: int) -> list[R]:
        """Return the last `count` records, the newest first."""
        return list(itertools.islice(reversed(self._records), count))

    def __iter__(self) -> Iterator[R]:
        """Go through all that are kept, the newest first."""
        return reversed(self._records)

    def __len__(self) -> int:
        return len(self._records)


P = TypeVar("P", bound=Decision | Binding)

#: The number of decisions, and of bindings, that are kept if all are of the shortest kind.
KEPT = 5_000

#: A record takes as much memory as 12 timings, and each 100 characters of its message count as one more (a plugin may
#: have its own reason for each node). The shortest record has four timings: a failed attempt, the most frequent when
#: pods are retried again and again. If all counted the same, the history of a busier hour would take 3 MiB more.
RECORD, CHARACTERS, SHORTEST = 12, 100, 16


class PodHistory(msgspec.Struct, frozen=True):
    """The kept records of one pod, oldest first."""

    decisions: tuple[Decision, ...] = ()
    bindings: tuple[Binding, ...] = ()


class _OfPods(RecordBuffer[P]):
    """The last records of one kind, also by the uid of their pod."""

    def __init__(self, kept: int) -> None:
        super().__init__(kept * SHORTEST, _weight)
        self._of: dict[str, deque[P]] = {}

    def put(self, record: P) -> Sequence[P]:
        self._of.setdefault(record.uid, deque()).append(record)
        forgotten = super().put(record)
        for oldest in forgotten:
            alike = self._of[oldest.uid]
            alike.popleft()
            if not alike:
                del self._of[oldest.uid]
        return forgotten

    def of(self, uid: str) -> tuple[P, ...]:
        return tuple(self._of.get(uid, ()))


def _weight(record: Decision | Binding) -> int:
    timings = record.timings if isinstance(record, Decision) else record.steps
    return max(SHORTEST, RECORD + len(timings) + len(record.plugins) + len(record.message) // CHARACTERS)


class History(Observer):
    """Keeps the last decisions and bindings, `kept` short ones of each, fewer longer ones."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self._decisions = _OfPods[Decision](kept)
        self._bindings = _OfPods[Binding](kept)

    def on_decision(self, decision: Decision) -> None:
        self._decisions.put(decision)

    def on_binding(self, binding: Binding) -> None:
        self._bindings.put(binding)

    @property
    def last(self) -> int:
        """The number of the newest attempt, which is also the number of attempts; 0 if there was none."""
        return next((decision.attempt for decision in self._decisions), 0)

    def recent(self, count: int) -> list[Decision]:
        """Return the last decisions, the newest first."""
        return self._decisions.recent(count)

    def since(self, attempt: int, count: int) -> list[Decision]:
        """Return the decisions of the attempts behind this one, the oldest first; at most the last `count` of them."""
        return [decision for decision in self._decisions.recent(count) if decision.attempt > attempt][::-1]

    def named(self, pod: str, count: int) -> list[Decision]:
        """Return the last decisions on pods of this `namespace/name`, the newest first."""
        return list(itertools.islice((decision for decision in self._decisions if decision.pod == pod), count))

    def of(self, uid: str) -> PodHistory:
        """Return the kept records of the pod with this uid."""
        return PodHistory(self._decisions.of(uid), self._bindings.of(uid))

    def binding(self, decision: Decision) -> Binding | None:
        """Return the binding cycle of an attempt; None if there was none, it is still running or no longer kept."""
        alike = (binding for binding in self._bindings.of(decision.uid) if binding.attempt == decision.attempt)
        return next(alike, None)
