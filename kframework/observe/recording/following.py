"""Recordings of the pod engine, told to one that follows: what was decided is what happens.

So the state is at every moment what it was, whoever looks at it then; and another configuration can be asked on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.cycle.decision import Binding, Decision, Observer, Result
from kframework.core.cycle.outcome import Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.effects import Host
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.pod_engine import PodEngines
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.told import Told
from kframework.state.queued_pod import QueuedPod
from kframework.values.status import Status


class Replay(Host):
    """A recording told to an engine that follows it: what was decided is what happens.

    `observers` take notice of what was recorded, as it comes. Raises InputError for what is no recording, ConfigError
    where its plugins are not installed.
    """

    def __init__(self, file: Path, registry: Registry | None = None, observers: Iterable[Observer] = ()) -> None:
        self.recorded: Recorded = Recorded(file)
        header = self.recorded.header
        if header.engine:
            raise self.recorded.error(f"is of the engine {header.engine!r}, which decides as it did or not at all")
        self._told = Told(self.recorded, PodEngines(registry, Following), self)
        engine = self._told.engine
        assert isinstance(engine, Following)
        #: Its state is the recorded one's.
        self.engine: Following = engine
        self.configuration: Configuration = parse(header.configuration, str(file))
        #: The time that it is in the recording.
        self.clock: Clock = self._told
        self._observers = tuple(observers)
        self._lines = iter(self.recorded)
        self._due: Decision | None = None

    def tell_until(self, stop: Callable[[Decision], bool]) -> Decision | None:
        """Tell on until right before the next attempt that `stop` accepts, and return its decision; None at the end.

        The attempt itself is made when more is told. When a decision is returned, the engine's state is the one on
        which it was made: all that had arrived is applied, and the pod is still in its queue.
        """
        while True:
            if self._due is not None:
                due, self._due = self._due, None
                self.engine.follow(due)
                self._observe(due)
            self._due = self._next_attempt()
            if self._due is None or stop(self._due):
                return self._due

    def _next_attempt(self) -> Decision | None:
        """Tell all that comes before the next attempt; None if there is no further one."""
        stepping = False
        for line in self._lines:
            if line.what == "Decision":
                decision = self.recorded.read(line.body, Decision)
                if stepping:
                    return decision
                # What a later part begins with.
                self._told.go_to(line.at)
                self.engine.take_up(decision)
                self._observe(decision)
            elif line.what == "Binding":
                binding = self.recorded.read(line.body, Binding)
                for observer in self._observers:
                    observer.bound(binding)
            elif line.what == "Step":
                self._told.go_to(line.at)
                self.engine.catch_up()
            else:
                self._told.tell(line)
            stepping = line.what == "Step"
        return None

    def _observe(self, decision: Decision) -> None:
        for observer in self._observers:
            observer.decided(decision)


class Following(PodEngine):
    """An engine whose attempts end as they are told to."""

    attempts: int
    #: How the attempt that is being made is to end; None between two of them.
    _told: Decision | None = None

    def follow(self, decision: Decision) -> None:
        """Make this attempt."""
        queued = self._taken(decision)
        if queued is not None:
            self.attempts = decision.attempt - 1
            self._told = decision
            self._attempt(queued)
            self._told = None

    def take_up(self, decision: Decision) -> None:
        """Put the pod where this attempt, of which no more is known, has left it."""
        self.catch_up()
        if decision.result is Result.SCHEDULED:
            self.follow(decision)
            return
        queued = self._taken(decision)
        if queued is not None:
            # The nomination may have changed since; what is true of it is told by itself.
            self._told = msgspec.structs.replace(decision, nominated=None)
            self.failed(queued, Status(decision.code, (decision.message,)), None)
            self._told = None

    def _taken(self, decision: Decision) -> QueuedPod | None:
        """Take the pod out of the queue, wherever in it the pod is; None if it is not in."""
        queued = self.queue.get(decision.uid)
        if queued is not None:
            self.queue.delete(decision.uid)
            self.queue.in_flight.pop(decision.uid)
            queued.attempts = decision.tries
        return queued

    def found(self, search: Search, outcome: Outcome) -> Outcome:
        """Find what was found."""
        outcome, told = super().found(search, outcome), self._told
        if told is None:
            return outcome
        if told.result is Result.SCHEDULED:
            return ScheduleResult(told.node, told.score, told.ties, told.evaluated, told.feasible, told.top)
        if isinstance(outcome, ScheduleResult) and not told.feasible:
            return ScheduleError(Status(told.code, (told.message,)))
        return outcome

    def failed(self, queued: QueuedPod, status: Status, nominated: str | None) -> None:
        """Put a pod back after a failed attempt, for the reasons that it had."""
        told = self._told
        if told is not None:
            queued.pending_plugins = frozenset(told.pending)
            queued.unschedulable_plugins = frozenset(told.rejectors) - queued.pending_plugins
            status, nominated = Status(told.code, (told.message,)), told.nominated
        super().failed(queued, status, nominated)
