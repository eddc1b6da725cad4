"""Following a configuration file: what is changed in it holds from the next session on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from kframework import ConfigError, KFrameworkError
from kframework.engine import read_source
from kframework_batch.config import parse
from kframework_batch.program import Program, compile_program
from kframework_batch.registry import BatchRegistry

#: How long to wait between two looks at the file, and at most for its text, in seconds.
PERIOD = 1.0
PATIENCE = 10.0


class ConfigurationFile:
    """A configuration file that may change while the scheduler runs.

    What counts is its text, by whatever way it got there: written over, replaced, or under a symbolic link that was
    turned, as a mounted ConfigMap is.
    """

    def __init__(self, path: str | Path, registry: BatchRegistry | None = None) -> None:
        self._path = path
        self._registry = registry
        self._text: str | None = None

    def load(self) -> Program:
        """Read and compile the file; ConfigError, PluginError."""
        _, self._text = read_source(self._path)
        return self._compiled(self._text)

    async def follow(self, use: Callable[[Program], None], tell: Callable[[str], None]) -> None:
        """Hand over a new program whenever the file has changed, until cancelled.

        A file that cannot be read or used is told of in one line, once, and the last good program stays.
        """
        unreadable = ""
        while True:
            await asyncio.sleep(PERIOD)
            try:
                text = await self._read()
            except ConfigError as error:
                if str(error) != unreadable:
                    tell(_refusal(error))
                unreadable = str(error)
                continue
            unreadable = ""
            if text == self._text:
                continue
            self._text = text
            try:
                use(self._compiled(text))
            except KFrameworkError as error:
                tell(_refusal(error))

    async def _read(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                _, text = await asyncio.to_thread(read_source, self._path)
        except TimeoutError as error:
            raise ConfigError(f"cannot be read: no answer within {PATIENCE:g} s", file=str(self._path)) from error
        return text

    def _compiled(self, text: str) -> Program:
        return compile_program(parse(text, str(self._path)), self._registry)

    def __repr__(self) -> str:
        return f"<ConfigurationFile {self._path}>"


def _refusal(error: KFrameworkError) -> str:
    return f"{'; '.join(str(error).splitlines())}; the last good configuration stays in force"
