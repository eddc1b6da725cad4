"""The recent history: an observer that keeps the last decisions and bindings for pages and reports."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from kframework.core.cycle.records import Binding, Decision, GroupDecision, GroupObserver, Observer

R = TypeVar("R")


class Reload(msgspec.Struct, frozen=True):
    """An attempt to take another configuration from its file.

    Attributes:
        at: When it ended, in seconds since 1970.
        number: The number of the configuration that decides from then on.
        changes: How the profiles differ, "" if the configuration was refused.
        problem: Why the configuration was refused, "" if it was taken.
    """

    at: float
    number: int
    changes: str = ""
    problem: str = ""


class RecordBuffer(Generic[R]):
    """The last records with a total weight of at most `most`, and the very last one of any weight."""

    def __init__(self, max_weight: int, weight: Callable[[R], int]) -> None:
        self._max_weight = max_weight
        self._weigh = weight
        self._records: deque[R] = deque()
        self._weight = 0

    def add(self, record: R) -> Sequence[R]:
        """Keep a record, and return those that are dropped for it, the oldest first."""
        self._records.append(record)
        self._weight += self._weigh(record)
        if self._weight <= self._max_weight:
            return ()
        dropped: list[R] = []
        while self._weight > self._max_weight and len(self._records) > 1:
            dropped.append(self._records.popleft())
            self._weight -= self._weigh(dropped[-1])
        return dropped

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
MAX_RECORDS = 5_000

#: A record takes as much memory as 12 timings, and each 100 characters of its message count as one more (a plugin may
#: have its own reason for each node). The shortest record has four timings: a failed attempt, the most frequent when
#: pods are retried again and again. If all counted the same, the history of a busier hour would take 3 MiB more.
RECORD_WEIGHT, CHARACTERS_PER_UNIT, MIN_WEIGHT = 12, 100, 16


class PodHistory(msgspec.Struct, frozen=True):
    """The kept records of one pod, oldest first."""

    decisions: tuple[Decision, ...] = ()
    bindings: tuple[Binding, ...] = ()


class _PodRecords(RecordBuffer[P]):
    """The last records of one kind, also by the uid of their pod."""

    def __init__(self, max_records: int) -> None:
        super().__init__(max_records * MIN_WEIGHT, _weigh_record)
        self._by_pod: dict[str, list[P]] = {}

    def add(self, record: P) -> Sequence[P]:
        self._by_pod.setdefault(record.uid, []).append(record)
        dropped = super().add(record)
        for oldest in dropped:
            matches = self._by_pod[oldest.uid]
            matches.pop(0)
            if not matches:
                del self._by_pod[oldest.uid]
        return dropped

    def for_pod(self, uid: str) -> tuple[P, ...]:
        return tuple(self._by_pod.get(uid, ()))


def _weigh_record(record: Decision | Binding) -> int:
    timings = record.timings if isinstance(record, Decision) else record.steps
    return max(
        MIN_WEIGHT, RECORD_WEIGHT + len(timings) + len(record.plugins) + len(record.message) // CHARACTERS_PER_UNIT
    )


class History(Observer, GroupObserver):
    """Keeps the last decisions and bindings, `max_records` short ones of each, fewer longer ones."""

    def __init__(self, max_records: int = MAX_RECORDS) -> None:
        self.max_records = max_records
        #: The last attempt to take another configuration; None if there was none.
        self.reload: Reload | None = None
        self._groups = RecordBuffer[GroupDecision](max_records, lambda decision: 1 + len(decision.trials))
        self._decisions = _PodRecords[Decision](max_records)
        self._bindings = _PodRecords[Binding](max_records)

    def on_decision(self, decision: Decision) -> None:
        self._decisions.add(decision)

    def on_binding(self, binding: Binding) -> None:
        self._bindings.add(binding)

    def on_group_decision(self, decision: GroupDecision) -> None:
        self._groups.add(decision)

    def for_group(self, kind: str, name: str) -> GroupDecision | None:
        """Return the last attempt to schedule a root of this kind, `namespace/name`; None if it is no longer kept."""
        return next((each for each in self._groups if (each.kind, each.group) == (kind, name)), None)

    @property
    def last_attempt(self) -> int:
        """The number of the newest attempt, which is also the number of attempts; 0 if there was none."""
        return next((decision.attempt for decision in self._decisions), 0)

    def recent(self, count: int) -> list[Decision]:
        """Return the last decisions, the newest first."""
        return self._decisions.recent(count)

    def after_attempt(self, attempt: int, count: int) -> list[Decision]:
        """Return the decisions of the attempts after this one, the oldest first; at most the last `count` of them."""
        return [decision for decision in self._decisions.recent(count) if decision.attempt > attempt][::-1]

    def for_pod_name(self, pod: str, count: int) -> list[Decision]:
        """Return the last decisions on pods of this `namespace/name`, the newest first."""
        return list(itertools.islice((decision for decision in self._decisions if decision.pod == pod), count))

    def for_pod(self, uid: str) -> PodHistory:
        """Return the kept records of the pod with this uid."""
        return PodHistory(self._decisions.for_pod(uid), self._bindings.for_pod(uid))

    def binding_for(self, decision: Decision) -> Binding | None:
        """Return the binding cycle of an attempt; None if there was none, it is still running or no longer kept."""
        matches = (binding for binding in self._bindings.for_pod(decision.uid) if binding.attempt == decision.attempt)
        return next(matches, None)
