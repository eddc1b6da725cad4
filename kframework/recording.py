"""Runs written down: all that reaches an engine from outside, in order, so that another process decides the same.

A recording is a gzip file of JSON lines. The first one, the header, names the format, its version and the configuration
(with the seed); every other says what happened, when, and with what:

    {"at": 1767225600.0, "what": "Changed", "with": {"apiVersion": "v1", "kind": "Node", ...}}    a message arrives
    {"at": 1767225601.0, "what": "Step"}                     the engine applies what has arrived and tries one pod
    {"at": 1767225601.0, "what": "CatchUp"}                  the engine applies what has arrived
    {"at": 1767225601.0, "what": "Allowed", "with": {"uid": "...", "plugin": "Gang"}}    a waiting pod gets one consent
    {"at": 1767225601.0, "what": "Judged", "with": {"uid": "...", "status": {...}}}      and its verdict
    {"at": 1767225601.0, "what": "Decision", "with": {...}}                              what came of it, and
    {"at": 1767225601.0, "what": "Binding", "with": {...}}                               how it ended

What an engine does by itself is not written, so neither are the messages that it offers itself during a step. What a
plugin learns elsewhere, over a connection of its own for instance, is not in a recording.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kframework.clock import Clock
from kframework.config import Configuration, effective_yaml
from kframework.decision import Binding, Decision
from kframework.effects import Effects, Reservation
from kframework.errors import ConfigError
from kframework.extenders import Extenders
from kframework.objects.codec import encode
from kframework.pod_engine import PodEngine
from kframework.state.inbox import Changed, Gone, Message
from kframework.status import Status

__all__ = ["FORMAT", "VERSION", "Allowed", "Header", "Judged", "Line", "RecordedEngine", "Recorder", "StandingClock"]

FORMAT = "kframework.dev/recording"

#: What this module writes, and the newest that can be replayed.
VERSION = 1


_NOTHING = msgspec.Raw(b"{}")


class Header(msgspec.Struct, frozen=True):
    """The first line of a recording; `configuration` is the effective one, in YAML."""

    format: str
    version: int
    configuration: str = ""


class Line(msgspec.Struct, frozen=True, omit_defaults=True, rename={"body": "with"}):
    """Any other line."""

    at: float
    what: str
    body: msgspec.Raw = _NOTHING


class Allowed(msgspec.Struct, frozen=True):
    """A Permit plugin has allowed a pod that still waits for others."""

    uid: str
    plugin: str


class Judged(msgspec.Struct, frozen=True):
    """A waiting pod has its verdict."""

    uid: str
    status: Status


class StandingClock:
    """The time as a recorded engine gets it: it stands still during a step, so that a replay can give it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment: float | None = None

    def now(self) -> float:
        """Return the seconds since 1970-01-01T00:00:00Z."""
        return self._clock.now() if self._moment is None else self._moment

    @property
    def standing(self) -> bool:
        """Whether time stands still."""
        return self._moment is not None

    @contextmanager
    def stand_still(self) -> Iterator[None]:
        """Let time stand still."""
        self._moment = self._clock.now()
        try:
            yield
        finally:
            self._moment = None


class Recorder:
    """Writes a run to a file: give its `engine` to the scheduler, and itself as an observer; `close` it in the end."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("wb")
        # No name and no time go into it: the name of the file is its owner's, the times are the run's.
        self._packed = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, compresslevel=6, mtime=0)
        self._clock: StandingClock | None = None

    def engine(self, configuration: Configuration, clock: Clock, effects: Effects, extenders: Extenders) -> PodEngine:
        """Make the engine that a configuration asks for, and record what reaches it; ConfigError with extenders."""
        if len(extenders):
            raise ConfigError("a run with extenders cannot be recorded: a replay would lack their answers")
        self._put(Header(FORMAT, VERSION, effective_yaml(configuration)))
        self._clock = StandingClock(clock)
        engine = RecordedEngine.of(configuration, self._clock, effects, extenders)
        assert isinstance(engine, RecordedEngine)
        engine.record(self, self._clock)
        return engine

    def write(self, what: str, body: msgspec.Raw = _NOTHING) -> None:
        """Write what happens now."""
        assert self._clock is not None
        self._put(Line(self._clock.now(), what, body))

    def happened(self, what: msgspec.Struct) -> None:
        """Write that this happens now, under the name of its class."""
        body = encode(what.obj) if isinstance(what, Changed | Gone) else msgspec.json.encode(what)
        self.write(type(what).__name__, msgspec.Raw(body))

    def decided(self, decision: Decision) -> None:
        """Write an attempt."""
        self.happened(decision)

    def bound(self, binding: Binding) -> None:
        """Write a binding cycle."""
        self.happened(binding)

    def close(self) -> None:
        """Finish the file."""
        self._packed.close()
        self._file.close()

    def _put(self, line: Header | Line) -> None:
        self._packed.write(msgspec.json.encode(line) + b"\n")


class RecordedEngine(PodEngine):
    """An engine that tells a recorder what reaches it from outside, and when it takes a step."""

    def record(self, recorder: Recorder, clock: StandingClock) -> None:
        """Tell this recorder of everything, from before the first message on; `clock` is the engine's own."""
        self._recorder = recorder
        self._standing = clock

    def offer(self, message: Message) -> None:
        """Take a message in, to be applied before the next cycle."""
        self._told(message)
        super().offer(message)

    def step(self) -> bool:
        """Apply the messages, do what is due, schedule one pod; tell whether there was a pod."""
        with self._standing.stand_still():
            self._recorder.write("Step")
            return super().step()

    def catch_up(self) -> None:
        """Apply the messages and do what is due, but schedule nothing."""
        if self._standing.standing:
            super().catch_up()
            return
        with self._standing.stand_still():
            self._recorder.write("CatchUp")
            super().catch_up()

    def launch(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod, and listen to what is said to it."""
        uid = reservation.pod.uid

        def listen(plugin: str, verdict: Status | None) -> None:
            self._told(Allowed(uid, plugin) if verdict is None else Judged(uid, verdict))

        reservation.reserved.listen = listen
        super().launch(reservation)

    def _told(self, what: msgspec.Struct) -> None:
        """Record what comes from outside; a replay says by itself what is said during a step."""
        if not self._standing.standing:
            self._recorder.happened(what)
