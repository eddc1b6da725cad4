"""Recordings of runs: all inputs of an engine in order, so that another process decides the same.

A recording is a gzip file of JSON lines. The first one, the header, names the format, its version, the engine and its
configuration (with the seed); every other is an event with its time and content:

    {"at": 1767225600.0, "what": "Upserted", "with": {"apiVersion": "v1", "kind": "Node", ...}}    a message arrives
    {"at": 1767225601.0, "what": "Step"}                     the engine applies what has arrived and takes a step
    {"at": 1767225601.0, "what": "CatchUp"}                  the engine applies what has arrived
    {"at": 1767225601.0, "what": "Decision", "with": {...}}                              what came of it,
    {"at": 1767225601.0, "what": "GroupDecision", "with": {...}}                         of a whole group as well, and
    {"at": 1767225601.0, "what": "Binding", "with": {...}}                               how it ended

Messages and accounts of an engine's own are written under the names of their classes, too; `pod_engine` describes
those of the pod engine. An engine's own actions are not written, and neither are the messages that it offers itself
during a step. A plugin's data from its sources arrive as messages; data from elsewhere are not in a recording.

A part that continues another one has a header with a `part` above 1, and begins with the state that its engine needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kframework._version import __version__
from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.cycle.records import AccountObserver, Binding, Decision, GroupDecision, GroupObserver, Observer
from kframework.core.cycle.suspendable import ExtenderClient
from kframework.core.host import Host
from kframework.core.plugin_handle import ProfilesFactory
from kframework.errors import ConfigError
from kframework.observe.recording.annotations import KEPT_ANNOTATIONS
from kframework.observe.recording.file import MAX_BYTES, PartStart, RecordingFile
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import Inbox, Message

T = TypeVar("T")
R = TypeVar("R", bound="RecordingEngine")

#: Creates an engine that can be recorded, as `kframework.engine.EngineFactory` creates any.
RecordingFactory = Callable[[Configuration, Clock, Host, Extenders, ProfilesFactory], R]

FORMAT = "kframework.dev/recording"

#: The version that is written, and that can be replayed.
VERSION = 5

_EMPTY_BODY = msgspec.Raw(b"{}")


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line of a recording: its part of a run, the time of the engine's creation, and the writer's version.

    `engine` is its name in the entry-point group `kframework.engines`, and `distribution` the distribution that has
    it, with its version; the pod engine has neither. `configuration` can create the engine again; that of the pod
    engine is the effective one, in YAML.
    """

    format: str
    version: int
    configuration: str
    at: float
    made_by: str = ""
    part: int = 1
    engine: str = ""
    distribution: str = ""


class Line(msgspec.Struct, frozen=True, omit_defaults=True, rename={"body": "with"}):
    """Any other line."""

    at: float
    what: str
    body: msgspec.Raw = _EMPTY_BODY


class FrozenClock(Clock):
    """A clock that can be frozen: a recorded engine's during a step, so that a replay can give it the same time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment: float | None = None

    def now(self) -> float:
        return self._clock.now() if self._moment is None else self._moment

    @property
    def is_frozen(self) -> bool:
        return self._moment is not None

    def freeze(self, moment: float | None = None) -> None:
        """Stop at this moment, or now."""
        self._moment = self._clock.now() if moment is None else moment

    def resume(self) -> None:
        self._moment = None


class Recorder(Observer, GroupObserver, AccountObserver):
    """Writes a run to a file: give the scheduler an engine that it records, and itself as an observer; `close` it.

    All parts together take at most `limit` bytes; `annotations` are keys of those that it holds, `*` standing for any
    part of a key. OSError if the file cannot be opened.
    """

    def __init__(self, file: Path, *, limit: int = MAX_BYTES, annotations: Sequence[str] = KEPT_ANNOTATIONS) -> None:
        self._file = RecordingFile(file, limit, annotations)

    def recording_factory(
        self,
        make: RecordingFactory[R],
        configuration_text: Callable[[Configuration], str],
        *,
        engine: str = "",
        distribution: str = "",
    ) -> RecordingFactory[R]:
        """Return a factory of the engine that records its inputs; it raises ConfigError with extenders.

        `configuration_text` returns a configuration to create the engine again; the rest is as in the Header.
        """

        def create(
            configuration: Configuration,
            clock: Clock,
            host: Host,
            extenders: Extenders,
            profiles: ProfilesFactory,
        ) -> R:
            refuse_extenders(extenders)
            #: The engine's own.
            self.clock: FrozenClock = FrozenClock(clock)
            self._header = Header(
                FORMAT,
                VERSION,
                configuration_text(configuration),
                self.clock.now(),
                f"kframework {__version__}",
                engine=engine,
                distribution=distribution,
            )
            self._file.begin(PartStart(self._header))
            # The engine's parts are created at the time at which the recording begins.
            self.clock.freeze(self._header.at)
            try:
                recorded = make(configuration, self.clock, host, extenders, profiles)
            finally:
                self.clock.resume()
            recorded.record_to(self)
            return recorded

        return create

    def write(self, entry: msgspec.Struct | str) -> None:
        """Write an entry with the current time: a record under the name of its class, or only a name."""
        self._file.put((self.clock.now(), entry))

    def on_decision(self, decision: Decision) -> None:
        self.write(decision)

    def on_binding(self, binding: Binding) -> None:
        self.write(binding)

    def on_group_decision(self, decision: GroupDecision) -> None:
        self.write(decision)

    def on_account(self, account: msgspec.Struct) -> None:
        self.write(account)

    def rotate_if_full(self, engine: RecordingEngine) -> None:
        """Start a new part if the current one is full, or stop if the engine has no parts; the inbox is empty."""
        if not self._file.is_full:
            return
        self._header = msgspec.structs.replace(self._header, part=self._header.part + 1)
        part_start = engine.part_start(self._header, self.clock.now())
        if part_start is None:
            self._file.end("it is full, and recordings of this engine have only one part")
        else:
            self._file.begin(part_start)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def refuse_extenders(extenders: ExtenderClient) -> None:
    """Raise ConfigError if there are extenders."""
    if len(extenders):
        raise ConfigError("a run with extenders cannot be recorded: a replay would lack their answers")


class RecordingEngine:
    """A base that records an engine's inputs and steps: `class Recorded(RecordingEngine, MyEngine)`."""

    inbox: Inbox
    _recorder: Recorder | None = None

    def record_to(self, recorder: Recorder) -> None:
        """Record all inputs from now on; those of plugins during their creation are not, as a replay creates them."""
        self._recorder = recorder

    def offer(self, message: Message) -> None:
        """Take a message in."""
        self.record(message)
        super().offer(message)  # type: ignore[misc]  # of the engine's class, which comes next

    def step(self) -> bool:
        """Do the next piece of work to its end; return whether there may be more at once.

        A replay could not repeat messages that come in its middle.
        """
        step: Callable[[], bool] = super().step  # type: ignore[misc]  # as in `offer`
        complete_step: Callable[[], None] = super().complete_step  # type: ignore[misc]  # as in `offer`

        def step_to_end() -> bool:
            more = step()
            complete_step()
            return more

        return self.with_frozen_clock("Step", step_to_end)

    def apply_messages(self) -> None:
        """Apply the messages and the due actions, but begin nothing."""
        apply_messages: Callable[[], None] = super().apply_messages  # type: ignore[misc]  # as in `offer`
        if self._recorder is not None and self._recorder.clock.is_frozen:
            apply_messages()
        else:
            self.with_frozen_clock("CatchUp", apply_messages)

    def with_frozen_clock(self, what: msgspec.Struct | str, act: Callable[[], T]) -> T:
        """Record this and do it, at one moment of the engine's clock."""
        recorder = self._recorder
        assert recorder is not None
        recorder.clock.freeze()
        try:
            recorder.write(what)
            done = act()
        finally:
            recorder.clock.resume()
        if not len(self.inbox):
            recorder.rotate_if_full(self)
        return done

    def record(self, what: msgspec.Struct) -> None:
        """Record an input from outside; inputs during a step are not recorded, as a replay produces them again."""
        if self._recorder is not None and not self._recorder.clock.is_frozen:
            self._recorder.write(what)

    def part_start(self, header: Header, now: float) -> PartStart | None:
        """Return the beginning of a new part; None if there can be none, and the recording is to end."""
        return None
