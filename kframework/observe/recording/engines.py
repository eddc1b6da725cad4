"""Kinds of engines that can be recorded, and created again to replay the recorded messages.

A distribution registers its kind of engine with an entry point of the group `kframework.engines`: an instance of a
class derived from `EngineKind`, under the name that its recordings have in their headers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec

from kframework.clock import Clock
from kframework.config.configuration import Configuration
from kframework.core.engine import Engine
from kframework.core.host import Host
from kframework.core.runtime.registry import installed_offers
from kframework.errors import ConfigError, ExplainError, InputError
from kframework.observe.recording.diff import ReplayResult
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.writer import Line, R, Recorder, RecordingFactory
from kframework.observe.web.view import EngineExplanation
from kframework.state.inbox import EngineMessage

#: The entry-point group in which distributions offer their engines.
GROUP = "kframework.engines"

E = TypeVar("E", bound=Engine)


class EngineKind(ABC, Generic[E]):
    """A kind of engine: how it is recorded, and created again for a replay.

    `messages` are those that only these engines know, `accounts` the records other than Decisions that their observers
    receive, by singular name; the first field of a record is its name. Durations, in `measured_fields`, are not
    compared. `annotations` are the keys of the annotations that they read, `*` for any part.
    """

    name: ClassVar[str] = ""
    messages: ClassVar[Sequence[type[EngineMessage]]] = ()
    accounts: ClassVar[Mapping[str, type[msgspec.Struct]]] = {}
    measured_fields: ClassVar[frozenset[str]] = frozenset()
    annotations: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def rebuild(self, configuration: str, file: str, clock: Clock, host: Host) -> E:
        """Create an engine from the configuration in a recording's header, a file of this name; raises ConfigError."""

    def apply_line(self, engine: E, recorded: RecordingReader, line: Line) -> None:
        """Offer the message of a line to the engine; InputError for an unknown one."""
        own = next((kind for kind in self.messages if kind.__name__ == line.what), None)
        engine.offer(recorded.message(line) if own is None else recorded.read(line.body, own))

    def recording_factory(
        self, recorder: Recorder, make: RecordingFactory[R], configuration_text: Callable[[Configuration], str]
    ) -> RecordingFactory[R]:
        """Return a factory of the same engine, with a recorder for its inputs."""
        return recorder.recording_factory(
            make, configuration_text, engine=self.name, distribution=distribution_of(self.name)
        )

    def check(self, config: str) -> Sequence[str]:
        """Check a configuration file of the engine, and return warnings; raises ConfigError."""
        raise ConfigError(f"the engine {self.name!r} has no check of configurations")

    def explain(self, engine: E, accounts: Sequence[msgspec.Struct], namespace: str, name: str) -> EngineExplanation:
        """Explain an object by the accounts of an engine so far, the newest first; raises ExplainError."""
        raise ExplainError(f"the engine {self.name!r} has no explanations")

    def explain_files(
        self, filenames: Sequence[str], config: str | None, devices: str | None, namespace: str, name: str
    ) -> EngineExplanation:
        """Simulate cluster files with a configuration of the engine, and explain an object; raises ExplainError."""
        raise ExplainError(f"the engine {self.name!r} has no explanations")

    def reconsider(self, file: Path, config: str) -> ReplayResult:
        """Decide each record again by a configuration file of the engine, on the recorded state; raises ConfigError."""
        raise ConfigError(f"the engine {self.name!r} supports only a strict replay, kframework replay")


def kind_of_recording(recorded: RecordingReader) -> EngineKind[Engine]:
    """Return the kind of engine that a recording is of; InputError where it is not installed."""
    header = recorded.header
    kind = kind_named(header.engine)
    if kind is None:
        distribution = header.distribution.partition(" ")[0] or f"a distribution that offers it under {GROUP}"
        raise recorded.error(f"is of the engine {header.engine!r}, which is not installed: install {distribution}")
    return kind


def kind_named(engine: str) -> EngineKind[Engine] | None:
    """Return the kind of engine installed under this name, None if there is none; InputError for anything else."""
    offer = next((offer for offer in installed_offers(GROUP) if offer.name == engine), None)
    if offer is None:
        return None
    kind = offer.load()
    if not isinstance(kind, EngineKind):
        raise InputError(f"{offer.target} of {offer.distribution} is not an EngineKind")
    return kind


def distribution_of(engine: str) -> str:
    """Return the installed distribution that offers an engine, as `name version`; "" if none does."""
    return next((offer.distribution for offer in installed_offers(GROUP) if offer.name == engine), "")
