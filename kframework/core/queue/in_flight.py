"""Pods that have been popped and not returned yet, and the events that happened meanwhile."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from kframework.framework.events import Occurrence


class InFlight:
    """Popped pods in the order of their pops, and the events since the oldest of these pops.

    An event is kept only as long as a pod is in flight that was popped before it, so memory is bounded by what
    happens during one scheduling or Permit wait.
    """

    def __init__(self) -> None:
        self._popped: dict[str, int] = {}
        self._events: deque[tuple[int, Occurrence]] = deque()
        self._time = 0
        #: How many events are kept, by their labels.
        self.kept: Counter[str] = Counter()

    def pop(self, uid: str) -> None:
        """Note that a pod was popped."""
        self._time += 1
        self._popped[uid] = self._time

    def add(self, event: Occurrence) -> None:
        """Note an event, if any pod is in flight to whom it may matter."""
        if self._popped:
            self._time += 1
            self._events.append((self._time, event))
            self.kept[event.label] += 1

    def since_pop(self, uid: str) -> Iterator[Occurrence]:
        """List the events that happened since the pod was popped."""
        popped = self._popped[uid]
        return (event for time, event in self._events if time > popped)

    def done(self, uid: str) -> bool:
        """Let a pod go, and the events that nobody waits for any more; tell whether it was in flight."""
        if self._popped.pop(uid, None) is None:
            return False
        oldest = next(iter(self._popped.values()), None)
        while self._events and (oldest is None or self._events[0][0] < oldest):
            _, event = self._events.popleft()
            self.kept[event.label] -= 1
        return True

    @property
    def events(self) -> int:
        """The number of events kept."""
        return len(self._events)

    def __contains__(self, uid: str) -> bool:
        return uid in self._popped

    def __len__(self) -> int:
        return len(self._popped)
