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

A part that goes on where another ended has a header with a `part` above 1. It begins with the objects as they were last
told, what the plugins' sources hold, the last decision on every pod that waited for another attempt or for its binding,
each by itself and without a step, the nominations, and {"what": "Continued"} with the rest.

What an engine does by itself is not written, so neither are the messages that it offers itself during a step. What a
plugin learns from its sources arrives as messages; what it learns elsewhere is not in a recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kframework import __version__
from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.config.show import effective_yaml
from kframework.core.cycle.consequences import Reservation
from kframework.core.cycle.decision import Binding, Decision, Observer
from kframework.core.effects import Effects
from kframework.core.plugin_handle import MakeProfiles
from kframework.core.pod_engine import PodEngine
from kframework.errors import ConfigError
from kframework.framework.status import Status
from kframework.observe.recording.annotations import KEPT
from kframework.observe.recording.file import LIMIT, Opening, RecordingFile
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import Activated, Message, Nominated, SourceChanged, SourceFailed, Synced

T = TypeVar("T")

FORMAT = "kframework.dev/recording"

#: What this module writes, and what can be replayed.
VERSION = 2

_NOTHING = msgspec.Raw(b"{}")


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The first line of a recording: which part of a run it is, when the engine was made, and by what.

    `configuration` is the effective one, in YAML.
    """

    format: str
    version: int
    configuration: str
    at: float
    made_by: str = ""
    part: int = 1


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


class Continued(msgspec.Struct, frozen=True):
    """Where an engine stood between two attempts: how many there were, and where the next search starts."""

    attempts: int
    rotation: int


class StandingClock(Clock):
    """The time as a recorded engine gets it: it stands still during a step, so that a replay can give it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moment: float | None = None

    def now(self) -> float:
        return self._clock.now() if self._moment is None else self._moment

    @property
    def standing(self) -> bool:
        """Whether time stands still."""
        return self._moment is not None

    def stop(self, moment: float | None = None) -> None:
        """Let time stand still, at this moment if one is given."""
        self._moment = self._clock.now() if moment is None else moment

    def go_on(self) -> None:
        """Let time go on."""
        self._moment = None


class Recorder(Observer):
    """Writes a run to a file: give its `engine` to the scheduler, and itself as an observer; `close` it in the end.

    All parts together take at most `limit` bytes; `annotations` are keys of those that it holds, `*` standing for any
    part of a key. OSError if the file cannot be opened.
    """

    def __init__(self, file: Path, *, limit: int = LIMIT, annotations: Sequence[str] = KEPT) -> None:
        self._file = RecordingFile(file, limit, annotations)

    def engine(
        self,
        configuration: Configuration,
        clock: Clock,
        effects: Effects,
        extenders: Extenders,
        profiles: MakeProfiles,
    ) -> PodEngine:
        """Make the engine that a configuration asks for, and record what reaches it; ConfigError with extenders."""
        if len(extenders):
            raise ConfigError("a run with extenders cannot be recorded: a replay would lack their answers")
        self._clock = StandingClock(clock)
        made_by = f"kframework {__version__}"
        self._header = Header(FORMAT, VERSION, effective_yaml(configuration), self._clock.now(), made_by)
        self._file.begin(Opening(self._header))
        # What the engine is made of is made at the moment that the recording begins with.
        self._clock.stop(self._header.at)
        try:
            engine = RecordedEngine.of(configuration, self._clock, effects, extenders, profiles)
        finally:
            self._clock.go_on()
        engine.record(self, self._clock)
        return engine

    def happened(self, what: msgspec.Struct | str) -> None:
        """Write that this happens now: a record under the name of its class, or nothing but a name."""
        self._file.put((self._clock.now(), what))

    def decided(self, decision: Decision) -> None:
        self.happened(decision)

    def bound(self, binding: Binding) -> None:
        self.happened(binding)

    def stands_between_steps(self, engine: PodEngine) -> None:
        """Go on in a new part if it is time to; all that has arrived is applied."""
        if self._file.full:
            self._header = msgspec.structs.replace(self._header, part=self._header.part + 1)
            self._file.begin(_opening(engine, self._header, self._clock.now()))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def _opening(engine: PodEngine, header: Header, now: float) -> Opening:
    """Say what must be known of an engine at the beginning of a new part."""
    nodes, nominator, queue = engine.cluster.nodes, engine.cluster.nominator, engine.queue
    awake = (queued.pod.uid for queued in queue if not queue.dormant(queued.pod.uid))
    nominated = (
        Nominated(uid, node_name)
        for uid, pod in engine.handlers.pending.items()
        if (node_name := nominator.node_of(uid)) != pod.nominated_node_name
    )
    after = (Activated(tuple(awake)), *nominated, Continued(engine.attempts, engine.rotation.next_start_index))
    return Opening(
        header,
        nodes=[nodes[row].name for row in nodes.order.tolist()],
        before=[*((now, what) for what in _heard(engine)), *([(now, Synced())] if engine.synced else [])],
        after=[(now, what) for what in after],
    )


def _heard(engine: PodEngine) -> Iterator[Message]:
    """Say what the sources of the plugins hold, and what is wrong with them."""
    for source in engine.sources:
        if source.updated_at is not None:
            yield SourceChanged(source.key, source.updated_at, dict(source))
        if source.error:
            yield SourceFailed(source.key, source.error)


class RecordedEngine(PodEngine):
    """An engine that tells a recorder what reaches it from outside, and when it takes a step."""

    _recorder: Recorder | None = None

    def record(self, recorder: Recorder, clock: StandingClock) -> None:
        """Tell this recorder of everything that comes from now on; `clock` is the engine's own.

        What plugins ask for while they are made is not told: a replay makes them too.
        """
        self._recorder = recorder
        self._standing = clock

    def offer(self, message: Message) -> None:
        self._told(message)
        super().offer(message)

    def step(self) -> bool:
        return self._while_time_stands("Step", super().step)

    def catch_up(self) -> None:
        if self._standing.standing:
            super().catch_up()
        else:
            self._while_time_stands("CatchUp", super().catch_up)

    def _while_time_stands(self, what: str, act: Callable[[], T]) -> T:
        assert self._recorder is not None
        self._standing.stop()
        try:
            self._recorder.happened(what)
            done = act()
        finally:
            self._standing.go_on()
        if not len(self.inbox):
            self._recorder.stands_between_steps(self)
        return done

    def launch(self, reservation: Reservation) -> None:
        """Start the binding cycle of an assumed pod, and listen to what is said to it."""
        uid = reservation.pod.uid

        def listen(plugin: str, verdict: Status | None) -> None:
            self._told(Allowed(uid, plugin) if verdict is None else Judged(uid, verdict))

        reservation.reserved.listen = listen
        super().launch(reservation)

    def _told(self, what: msgspec.Struct) -> None:
        """Record what comes from outside; a replay says by itself what is said during a step."""
        if self._recorder is not None and not self._standing.standing:
            self._recorder.happened(what)
