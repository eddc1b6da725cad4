"""An engine in a recording, and what was written of it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kframework import Plugin
from kframework.config.load import parse
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extenders import Extenders
from tests.extension_points.scripted import alone

__all__ = ["RecordedRun", "Ticking", "read"]


class Ticking:
    """A clock that advances whenever it is read."""

    def __init__(self) -> None:
        self.moment = 100.0

    def now(self) -> float:
        self.moment += 1.0
        return self.moment


class RecordedRun:
    """An engine in a recording."""

    def __init__(self, file: Path, *plugins: type[Plugin]) -> None:
        self.file = file
        self.recorder = Recorder(file)
        self.host = Host()
        self.host.report_decision = self.recorder.on_decision  # type: ignore[method-assign]  # as a scheduler's observer is told
        configuration = parse(alone(*plugins))
        profiles = profiles_factory(configuration, Registry.with_plugins(*plugins), self.host)
        self.engine: PodEngine = recording_pod_engine_factory(self.recorder)(
            configuration, Ticking(), self.host, Extenders(), profiles
        )

    def lines(self) -> list[dict[str, Any]]:
        """End the recording and read it."""
        self.recorder.close()
        return list(read(self.file))

    def said(self) -> list[str]:
        """End the recording and name what happened."""
        return [line["what"] for line in self.lines()[1:]]


def read(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file) as lines:
        yield from map(msgspec.json.decode, lines)
