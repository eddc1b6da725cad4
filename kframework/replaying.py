"""Recordings told again: a new engine gets what the recorded one got, and its decisions are compared with the old ones.

Nothing is done outside: no binding, timer or coroutine of a plugin runs, as all that came of them stands in the file.
"""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from kframework.config import parse
from kframework.decision import Decision
from kframework.effects import Nowhere
from kframework.errors import InputError
from kframework.extenders import Extenders
from kframework.objects import kind_named
from kframework.objects.codec import decode
from kframework.plugin_handle import PluginHandle
from kframework.pod_engine import PodEngine
from kframework.profiles import compile_profiles
from kframework.recording import FORMAT, VERSION, Allowed, Header, Judged, Line
from kframework.registry import Registry
from kframework.state.inbox import (
    Activated,
    BindingEnded,
    BindingStarted,
    Changed,
    Gone,
    LastVictim,
    Message,
    Nominated,
    PreemptionEnded,
    Synced,
    Touched,
)

__all__ = ["Difference", "Replayed", "replay"]

T = TypeVar("T")

_ABOUT_OBJECTS: dict[str, type[Changed | Gone]] = {"Changed": Changed, "Gone": Gone}
_PLAIN: dict[str, type[Message]] = {
    kind.__name__: kind
    for kind in (
        Activated,
        BindingEnded,
        BindingStarted,
        LastVictim,
        Nominated,
        PreemptionEnded,
        Synced,
        Touched,
    )
}

#: What of a decision is measured, not decided.
_MEASURED = frozenset({"started", "timings", "plugins"})
_COMPARED = tuple(name for name in Decision.__struct_fields__ if name not in _MEASURED)


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
    """What a replay came to: how much was told and compared, and the first difference, None if there is none."""

    messages: int
    steps: int
    decisions: int
    difference: Difference | None


def replay(file: Path, registry: Registry | None = None) -> Replayed:
    """Tell a new engine what a recording says, until it decides otherwise than the recorded one.

    Raises InputError for what is no recording; ConfigError where its plugins are not installed.
    """
    with gzip.open(file) as lines:
        return _Replay(file, lines, registry or Registry.installed()).run()


class _RecordedTime:
    """The moments of a recording."""

    moment = 0.0

    def now(self) -> float:
        return self.moment


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    """What an object says of its kind."""

    api_version: str
    kind: str


class _Replay(Nowhere):
    """One replay while it runs."""

    def __init__(self, file: Path, lines: Iterable[bytes], registry: Registry) -> None:
        self._file = file
        self._number = 0
        self._cut_off = False
        self._lines = self._whole(lines)
        self._clock = _RecordedTime()
        self._made: deque[Decision] = deque()
        self._messages = self._steps = self._decisions = 0
        self._engine = self._open(self._header(), registry)

    def _header(self) -> Header:
        header = self._read(next(self._lines, b"{}"), Header)
        if header.format != FORMAT:
            raise self._error(f"is no recording: its format is {header.format!r}, not {FORMAT!r}")
        if header.version > VERSION:
            message = (
                f"has version {header.version} of the format, and {VERSION} is the newest known: update kframework"
            )
            raise self._error(message)
        return header

    def _open(self, header: Header, registry: Registry) -> PodEngine:
        configuration = parse(header.configuration, str(self._file))
        engine = PodEngine.of(configuration, self._clock, self, Extenders())
        engine.use(
            compile_profiles(
                configuration, registry, lambda profile, plugin: PluginHandle(engine, self, profile, plugin)
            )
        )
        return engine

    def decided(self, decision: Decision) -> None:
        """Keep an attempt until it is compared."""
        self._made.append(decision)

    def run(self) -> Replayed:
        """Tell the engine line after line."""
        lines = (self._read(text, Line) for text in self._lines)
        differences = (difference for line in lines if (difference := self._tell(line)) is not None)
        difference = next(differences, None) or (None if self._cut_off else self._unrecorded())
        return Replayed(self._messages, self._steps, self._decisions, difference)

    def _tell(self, line: Line) -> Difference | None:
        """Do what a line says; return the difference that it brings to light."""
        if line.what == "Decision":
            return self._compare(self._read(line.body, Decision))
        if self._made:
            return self._unrecorded()
        self._clock.moment = line.at
        if line.what == "Step":
            self._steps += 1
            self._engine.step()
        elif line.what == "CatchUp":
            self._engine.catch_up()
        elif line.what == "Allowed":
            self._allow(self._read(line.body, Allowed))
        elif line.what == "Judged":
            self._judge(self._read(line.body, Judged))
        elif line.what != "Binding":
            self._messages += 1
            self._engine.offer(self._message(line))
        return None

    def _allow(self, word: Allowed) -> None:
        reserved = self._engine.cluster.waiting.get(word.uid)
        if reserved is not None:
            reserved.allow(word.plugin)

    def _judge(self, word: Judged) -> None:
        reserved = self._engine.cluster.waiting.get(word.uid)
        if reserved is not None:
            reserved.decide(word.status)

    def _message(self, line: Line) -> Message:
        plain, about_object = _PLAIN.get(line.what), _ABOUT_OBJECTS.get(line.what)
        if plain is not None:
            return self._read(line.body, plain)
        if about_object is None:
            raise self._error(f"{line.what!r} is nothing that is known to happen")
        named = self._read(line.body, _Named)
        kind = kind_named(named.api_version, named.kind)
        if kind is None:
            message = f"{named.kind} of {named.api_version} is no known kind: install the plugin that declares it"
            raise self._error(message)
        try:
            return about_object(decode(bytes(line.body), kind))
        except InputError as error:
            raise self._error(str(error)) from error

    def _compare(self, recorded: Decision) -> Difference | None:
        if not self._made:
            return Difference(self._number, recorded, None)
        self._decisions += 1
        replayed = self._made.popleft()
        fields = tuple(name for name in _COMPARED if getattr(recorded, name) != getattr(replayed, name))
        return Difference(self._number, recorded, replayed, fields) if fields else None

    def _unrecorded(self) -> Difference | None:
        """Return the decision that the recording should have told of by now."""
        return Difference(self._number, None, self._made[0]) if self._made else None

    # -- reading ---------------------------------------------------------------------------------------------------

    def _whole(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield whole lines: where the writer died, what it did not finish is left out."""
        try:
            for self._number, text in enumerate(lines, 1):
                self._cut_off = not text.endswith(b"\n")
                if not self._cut_off:
                    yield text
        except EOFError:
            self._cut_off = True
        except gzip.BadGzipFile as error:
            raise self._error(f"is no recording: {error}") from error

    def _read(self, text: bytes | msgspec.Raw, struct: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=struct)
        except msgspec.DecodeError as error:
            raise self._error(str(error)) from error

    def _error(self, message: str) -> InputError:
        return InputError(message, file=str(self._file), line=self._number)
