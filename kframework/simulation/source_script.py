"""Values that a simulation plays in place of a plugin's source, by a script or from a file."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path

import msgspec
import yaml

from kframework.clock import Clock
from kframework.core.runtime.profiles import Profiles
from kframework.errors import InputError
from kframework.framework.source import Source
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects.codec import describe_decode_error
from kframework.objects.json_lines import read_lines
from kframework.objects.yaml_documents import documents
from kframework.simulation.running import Script

#: The maximum length of a line in a file of values.
_MAX_LINE_BYTES = 32 << 20

#: An action of a script, for `Scenario.at`.
ScriptAction = Callable[[object], None]


class SourceScript:
    """A script for the values of a plugin's source; its methods return actions for `Scenario.at`.

    `values` are its first values, None: nothing. While it has values, it publishes them as often as the source is
    declared to be fetched. After a failure it publishes at the next fetch.
    """

    def __init__(self, plugin: str, name: str, values: Mapping[str, object] | None = None) -> None:
        self.plugin = plugin
        self.name = name
        self._first = values
        self._values: Mapping[str, object] | None = None
        self._error = ""
        self._changed: asyncio.Event

    def publish(self, values: Mapping[str, object]) -> ScriptAction:
        """Publish these values as the source's complete data."""
        return lambda _: self._set(values, "")

    def fail(self, error: str) -> ScriptAction:
        """Fail on every fetch."""
        return lambda _: self._set(None, error)

    def stop_publishing(self) -> ScriptAction:
        """Stop publishing, so that the last values become stale."""
        return lambda _: self._set(None, "")

    def is_settled(self) -> bool:
        """Return whether the source has taken the last values or error, so that the scheduler knows of them."""
        return not self._changed.is_set() or not (self._values is not None or self._error)

    def _set(self, values: Mapping[str, object] | None, error: str) -> None:
        self._values, self._error = values, error
        self._changed.set()

    def replace_fetch(self, source: Source[object]) -> None:
        """Replace the fetch of this source, from the beginning."""
        self._values, self._error, self._changed = self._first, "", asyncio.Event()
        every = source.settings.every

        async def fetch() -> AsyncGenerator[Mapping[str, object]]:
            while True:
                self._changed.clear()
                if self._error:
                    raise ConnectionError(self._error)
                if self._values is not None:
                    yield self._values
                try:
                    async with asyncio.timeout(every if self._values is not None else None):
                        await self._changed.wait()
                except TimeoutError:
                    continue  # publishes the same values again

        source.fetch = fetch
        source.settings = msgspec.structs.replace(source.settings, timeout=None)


class TimedValues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of a file: from `at` seconds on, the source has these values, fails with this error, or is silent."""

    at: float
    values: dict[str, object] | None = None
    error: str = ""


class SourceFile:
    """The values of a plugin's source over time, one JSON or YAML mapping a line, in the order of their times."""

    def __init__(self, plugin: str, name: str, file: str) -> None:
        self.script: SourceScript = SourceScript(plugin, name)
        self._file = file
        self._lines: list[tuple[int, TimedValues]] = []
        with Path(file).open("rb") as stream:
            for number, line in read_lines(stream.readline, file, _MAX_LINE_BYTES):
                if line.strip() and not line.lstrip().startswith(b"#"):
                    self._lines.append((number, self._read_line(number, line)))
        if not self._lines:
            raise InputError('has no values: write lines such as {"at": 0, "values": {"a": 1}}', file=file)

    def _read_line(self, number: int, line: bytes) -> TimedValues:
        try:
            (mapping,) = documents(line.decode())
            timed = msgspec.convert(mapping, TimedValues)
        except (ValueError, yaml.YAMLError) as error:
            wanted = '{"at": SECONDS, "values": {KEY: VALUE, ...}}, or "error": TEXT in place of values'
            problem = f"{_describe_problem(error)}; write {wanted}"
            raise InputError(problem, file=self._file, line=number) from error
        earliest = self._lines[-1][1].at if self._lines else 0.0
        if not earliest <= timed.at < math.inf:
            message = f"at is {timed.at:g}: use seconds from 0 on, in ascending order"
            raise InputError(message, file=self._file, line=number)
        if timed.values is not None and timed.error:
            raise InputError("has values and an error: use one of them", file=self._file, line=number)
        return timed

    def create_controller(self, cluster: MemoryCluster, clock: Clock) -> Script:
        """Create the controller that plays the file, once it replaces the source."""
        actions = [(timed.at, self._action(timed)) for _, timed in self._lines]
        return Script(cluster, clock, actions, self.script.is_settled)

    def _action(self, timed: TimedValues) -> ScriptAction:
        if timed.values is not None:
            return self.script.publish(timed.values)
        return self.script.fail(timed.error) if timed.error else self.script.stop_publishing()

    def replace_source(self, profiles: Profiles) -> None:
        """Play the file in place of the source; raises InputError for a source or values that no plugin declares."""
        try:
            sources = replace_source(self.script, profiles)
        except ValueError as error:
            raise InputError(str(error), file=self._file) from None
        for number, timed in self._lines:
            for source in sources:
                try:
                    source.validate(timed.values or {})
                except ValueError as error:
                    raise InputError(str(error), file=self._file, line=number) from None


def _describe_problem(error: Exception) -> str:
    """Return why a line cannot be read."""
    if isinstance(error, yaml.MarkedYAMLError):
        return f"is not YAML: {error.problem or error.context}"
    if isinstance(error, msgspec.ValidationError):
        return describe_decode_error(error)
    return "is not one mapping"


def replace_source(script: SourceScript, profiles: Profiles) -> list[Source[object]]:
    """Replace and return a source of a plugin, in every profile; ValueError if no plugin declares it."""
    declared = list(profiles.sources())
    sources = [source for source in declared if (source.plugin, source.name) == (script.plugin, script.name)]
    if not sources:
        names = ", ".join(f"{source.plugin}/{source.name}" for source in declared) or "none"
        raise ValueError(f"no plugin declares the source {script.plugin}/{script.name}; declared: {names}")
    for source in sources:
        script.replace_fetch(source)
    return sources
