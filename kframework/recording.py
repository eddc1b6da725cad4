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
told, the last decision on every pod that waited for another attempt or for its binding, each by itself and without a
step, the nominations, and {"what": "Continued"} with the rest.

What an engine does by itself is not written, so neither are the messages that it offers itself during a step. What a
plugin learns elsewhere, over a connection of its own for instance, is not in a recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kframework import __version__
from kframework.clock import Clock
from kframework.config import Configuration, effective_yaml
from kframework.decision import Binding, Decision
from kframework.effects import Effects, Reservation
from kframework.errors import ConfigError
from kframework.extenders import Extenders
from kframework.objects import Node, Pod
from kframework.pod_engine import PodEngine
from kframework.profiles import Profiles
from kframework.recording_file import LIMIT, Kept, RecordingFile
from kframework.recording_privacy import Privacy
from kframework.state.inbox import Activated, BindingEnded, Changed, Gone, Message, Nominated
from kframework.status import Status

__all__ = [
    "FORMAT",
    "VERSION",
    "Allowed",
    "Continued",
    "Header",
    "Judged",
    "Line",
    "RecordedEngine",
    "Recorder",
    "StandingClock",
]

FORMAT = "kframework.dev/recording"

#: What this module writes, and what can be replayed.
VERSION = 2

_NOTHING = msgspec.Raw(b"{}")

_encode = msgspec.json.Encoder().encode

#: What a later part begins with.
_NODES, _OBJECTS, _DECISIONS = "nodes", "objects", "decisions"


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
    def stand_still(self, moment: float | None = None) -> Iterator[None]:
        """Let time stand still, at this moment if one is given."""
        self._moment = self._clock.now() if moment is None else moment
        try:
            yield
        finally:
            self._moment = None


class Recorder:
    """Writes a run to a file: give its `engine` to the scheduler, and itself as an observer; `close` it in the end.

    All parts together take at most `limit` bytes. OSError if the file cannot be opened.
    """

    def __init__(self, file: Path, *, limit: int = LIMIT) -> None:
        self._file = RecordingFile(file, limit)
        self._privacy = Privacy()
        self._header: Header | None = None

    def engine(self, configuration: Configuration, clock: Clock, effects: Effects, extenders: Extenders) -> PodEngine:
        """Make the engine that a configuration asks for, and record what reaches it; ConfigError with extenders."""
        if len(extenders):
            raise ConfigError("a run with extenders cannot be recorded: a replay would lack their answers")
        self._clock = StandingClock(clock)
        made_by = f"kframework {__version__}"
        self._header = Header(FORMAT, VERSION, effective_yaml(configuration), self._clock.now(), made_by)
        self._file.write(_text(self._header))
        engine = RecordedEngine.of(configuration, self._clock, effects, extenders)
        assert isinstance(engine, RecordedEngine)
        engine.record(self, self._clock, self._header.at)
        return engine

    # -- what is told --------------------------------------------------------------------------------------------------

    def happened(self, what: msgspec.Struct) -> None:
        """Write that this happens now, under the name of its class."""
        if isinstance(what, Changed | Gone):
            self._object(what)
            return
        line = self._line(type(what).__name__, _encode(what))
        if isinstance(what, BindingEnded) and what.status is not None:
            self._file.drop(line, _DECISIONS, what.uid)
        else:
            self._file.write(line)

    def steps(self) -> None:
        """Write that the engine takes a step now."""
        self._file.write(self._line("Step"))

    def catches_up(self) -> None:
        """Write that the engine applies now what has arrived."""
        self._file.write(self._line("CatchUp"))

    def decided(self, decision: Decision) -> None:
        """Write an attempt."""
        line = self._line("Decision", _encode(decision))
        self._file.keep(line, _DECISIONS, decision.uid)

    def bound(self, binding: Binding) -> None:
        """Write a binding cycle."""
        self._file.write(self._line("Binding", _encode(binding)))

    def stands_between_steps(self, engine: PodEngine) -> None:
        """Go on in a new part if it is time to; all that has arrived is applied."""
        if self._file.full:
            self._file.begin(self._opening(engine))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    # -- how it is written ---------------------------------------------------------------------------------------------

    def _object(self, what: Changed | Gone) -> None:
        """Write what the cluster says of an object."""
        obj, metadata = what.obj, what.obj.metadata
        line = self._line(type(what).__name__, self._privacy.encode(obj))
        chapter, key = _OBJECTS, metadata.uid or f"{type(obj).__name__} {metadata.namespace}/{metadata.name}"
        if isinstance(obj, Node):
            chapter, key = _NODES, metadata.name
        if isinstance(what, Changed):
            self._file.keep(line, chapter, key)
        else:
            self._file.drop(line, chapter, key)
        if isinstance(obj, Pod) and (isinstance(what, Gone) or obj.spec.node_name):
            self._file.drop(b"", _DECISIONS, metadata.uid)

    def _opening(self, engine: PodEngine) -> Iterator[bytes | Kept]:
        """Yield what a new part begins with."""
        assert self._header is not None
        self._header = msgspec.structs.replace(self._header, part=self._header.part + 1)
        yield _text(self._header)
        # So they come in the same order again, whichever of them was there first.
        nodes = engine.cluster.nodes
        yield Kept(_NODES, tuple(nodes[row].name for row in nodes.order.tolist()))
        yield Kept(_OBJECTS)
        if engine.synced:
            yield self._line("Synced")
        yield Kept(_DECISIONS)
        awake = tuple(queued.pod.uid for queued in engine.queue if not engine.queue.dormant(queued.pod.uid))
        yield self._line("Activated", _encode(Activated(awake)))
        for uid, pod in engine.handlers.pending.items():
            node_name = engine.cluster.nominator.node_of(uid)
            if node_name != pod.nominated_node_name:
                yield self._line("Nominated", _encode(Nominated(uid, node_name)))
        yield self._line("Continued", _encode(Continued(engine.attempts, engine.rotation.start)))

    def _line(self, what: str, body: bytes = b"") -> bytes:
        """Write a Line, by hand because there are ten for every pod."""
        moment = _encode(self._clock.now())
        with_body = b',"with":' + body if body else b""
        return b'{"at":%b,"what":"%b"%b}\n' % (moment, what.encode(), with_body)


def _text(header: Header) -> bytes:
    return _encode(header) + b"\n"


class RecordedEngine(PodEngine):
    """An engine that tells a recorder what reaches it from outside, and when it takes a step."""

    def record(self, recorder: Recorder, clock: StandingClock, born: float) -> None:
        """Tell this recorder of everything, from before the first message on.

        `clock` is the engine's own; what the engine is made of is made at the moment `born`.
        """
        self._recorder = recorder
        self._standing = clock
        self._born = born

    def use(self, profiles: Profiles) -> None:
        """Take the profiles whose pods this engine schedules; once, before the first message."""
        with self._standing.stand_still(self._born):
            super().use(profiles)

    def offer(self, message: Message) -> None:
        """Take a message in, to be applied before the next cycle."""
        self._told(message)
        super().offer(message)

    def step(self) -> bool:
        """Apply the messages, do what is due, schedule one pod; tell whether there was a pod."""
        with self._standing.stand_still():
            self._recorder.steps()
            tried = super().step()
        if not len(self.inbox):
            self._recorder.stands_between_steps(self)
        return tried

    def catch_up(self) -> None:
        """Apply the messages and do what is due, but schedule nothing."""
        if self._standing.standing:
            super().catch_up()
            return
        with self._standing.stand_still():
            self._recorder.catches_up()
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
