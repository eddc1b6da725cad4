"""Recordings told again to a new engine, which then decides as the recorded one did, or is made to.

`replay` lets the engine decide by itself, and compares: the same configuration gives the same decisions. A `Replay`
follows: what was decided is what happens, so that the state is at every moment what it was, whoever looks at it then.

Nothing is done outside: no binding, timer or coroutine of a plugin runs, as all that came of them stands in the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.cycle.decision import Binding, Decision, Observer, Result
from kframework.core.cycle.outcome import Outcome, ScheduleError, ScheduleResult
from kframework.core.cycle.search import Search
from kframework.core.effects import NullEffects
from kframework.core.plugin_handle import profiles_for
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_pod import QueuedPod
from kframework.core.runtime.registry import Registry
from kframework.framework.status import Status
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.writer import Allowed, Continued, Judged, Line
from kframework.scheduler.extenders import Extenders

#: What of a decision is measured, not decided, or not known to a part that begins in the middle.
_MEASURED = frozenset({"started", "timings", "plugins", "woken_by"})
_COMPARED = tuple(name for name in Decision.__struct_fields__ if name not in _MEASURED)


# -- to decide again -------------------------------------------------------------------------------------------------


class Difference(msgspec.Struct, frozen=True):
    """Where a replay left its recording: `fields` of a decision differ, or one of the two has no such decision."""

    line: int
    recorded: Decision | None
    replayed: Decision | None
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        recorded, replayed = self.recorded, self.replayed
        if recorded is not None and replayed is not None:
            both = (f"{name} {getattr(replayed, name)!r}, not {getattr(recorded, name)!r}" for name in self.fields)
            return f"line {self.line}: attempt {recorded.attempt} at pod {recorded.pod} came to {'; '.join(both)}"
        only, whose = (recorded, "recording") if recorded is not None else (replayed, "replay")
        assert only is not None
        return f"line {self.line}: attempt {only.attempt} at pod {only.pod} is in the {whose} only"


class Replayed(msgspec.Struct, frozen=True):
    """What a replay came to: how much was told and compared, and the first difference, None if there is none.

    `cut_off`: the recording ends in the middle, because its writer died or is still at work.
    """

    messages: int
    steps: int
    decisions: int
    difference: Difference | None
    cut_off: bool = False


def replay(file: Path, registry: Registry | None = None) -> Replayed:
    """Tell a new engine what a recording says, until it decides otherwise than the recorded one.

    Raises InputError for what is no recording, or a later part of one; ConfigError where its plugins are not installed.
    """
    return _Check(Recorded(file), registry).run()


class _Check(NullEffects):
    """One replay while it runs."""

    def __init__(self, recorded: Recorded, registry: Registry | None) -> None:
        if recorded.header.part > 1:
            raise recorded.error("begins in the middle of a run, so nobody can decide by himself what comes next")
        self._recorded = recorded
        self._told = _Told(recorded, PodEngine, self, registry)
        self._made: deque[Decision] = deque()
        self._steps = self._decisions = 0

    def decided(self, decision: Decision) -> None:
        """Keep an attempt until it is compared."""
        self._made.append(decision)

    def run(self) -> Replayed:
        """Tell the engine line after line."""
        differences = (difference for line in self._recorded if (difference := self._tell(line)) is not None)
        difference = next(differences, None) or (None if self._recorded.cut_off else self._unrecorded())
        return Replayed(self._told.messages, self._steps, self._decisions, difference, self._recorded.cut_off)

    def _tell(self, line: Line) -> Difference | None:
        """Do what a line says; return the difference that it brings to light."""
        if line.what == "Decision":
            return self._compare(self._recorded.read(line.body, Decision))
        if self._made:
            return self._unrecorded()
        if line.what == "Step":
            self._steps += 1
            self._told.go_to(line.at)
            self._told.engine.step()
        elif line.what != "Binding":
            self._told.tell(line)
        return None

    def _compare(self, recorded: Decision) -> Difference | None:
        if not self._made:
            return Difference(self._recorded.number, recorded, None)
        self._decisions += 1
        replayed = self._made.popleft()
        fields = tuple(name for name in _COMPARED if getattr(recorded, name) != getattr(replayed, name))
        return Difference(self._recorded.number, recorded, replayed, fields) if fields else None

    def _unrecorded(self) -> Difference | None:
        """Return the decision that the recording should have told of by now."""
        return Difference(self._recorded.number, None, self._made[0]) if self._made else None


# -- to see again ----------------------------------------------------------------------------------------------------


class Replay(NullEffects):
    """A recording told to an engine that follows it: what was decided is what happens.

    `observers` take notice of what was recorded, as it comes. Raises InputError for what is no recording, ConfigError
    where its plugins are not installed.
    """

    def __init__(self, file: Path, registry: Registry | None = None, observers: Iterable[Observer] = ()) -> None:
        self.recorded: Recorded = Recorded(file)
        self._told = _Told(self.recorded, Following, self, registry)
        engine = self._told.engine
        assert isinstance(engine, Following)
        #: Its state is the recorded one's.
        self.engine: Following = engine
        self.configuration: Configuration = self._told.configuration
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


# -- what both have in common ----------------------------------------------------------------------------------------


class _Told(Clock):
    """An engine that is told what a recording says, and the time that it is there."""

    def __init__(
        self, recorded: Recorded, engine: type[PodEngine], outside: NullEffects, registry: Registry | None
    ) -> None:
        self._recorded = recorded
        self._moment = recorded.header.at
        self.messages: int = 0
        self.configuration: Configuration = parse(recorded.header.configuration, str(recorded.file))
        profiles = profiles_for(self.configuration, registry or Registry.installed(), outside)
        self.engine: PodEngine = engine.of(self.configuration, self, outside, Extenders(), profiles)

    def now(self) -> float:
        return self._moment

    def go_to(self, moment: float) -> None:
        """Let it be this time."""
        self._moment = moment

    def tell(self, line: Line) -> None:
        """Do what a line says that tells of no attempt and of no binding."""
        self._moment = line.at
        if line.what == "CatchUp":
            self.engine.catch_up()
        elif line.what == "Allowed":
            allowed = self._recorded.read(line.body, Allowed)
            if (reserved := self.engine.cluster.waiting.get(allowed.uid)) is not None:
                reserved.allow(allowed.plugin)
        elif line.what == "Judged":
            judged = self._recorded.read(line.body, Judged)
            if (reserved := self.engine.cluster.waiting.get(judged.uid)) is not None:
                reserved.decide(judged.status)
        elif line.what == "Continued":
            continued = self._recorded.read(line.body, Continued)
            self.engine.attempts = continued.attempts
            self.engine.rotation.next_start_index = continued.rotation
        else:
            self.messages += 1
            self.engine.offer(self._recorded.message(line))
