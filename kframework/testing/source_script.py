"""A source of outside data that says what a test lets it say, on virtual time.

    scenario = Scenario(nodes=[make_node("a")], pods=[make_pod("web")], plugins=[Load])
    load = scenario.source("Load", "load", {"a": 0.9})
    scenario.at(30, load.tell({"a": 0.1}))
    scenario.at(60, load.fail("connection refused"))
    scenario.at(300, load.fall_silent())

What the plugin would really fetch is never asked for. Everything else is as in a real run: what is told is checked,
applied between two cycles, grows old, and wakes the pods that the plugin rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping

import msgspec

from kframework.framework.source import Source

#: What happens when it is its turn, whatever the cluster is like.
Turn = Callable[[object], None]


class SourceScript:
    """What a source of a plugin says from now on; its methods return actions for `Scenario.at`.

    `values` is what it says from the start, None: nothing. While it says something, it says so again as often as the
    source is declared to be fetched. After a failure it is heard when it is asked again.
    """

    def __init__(self, plugin: str, name: str, values: Mapping[str, object] | None = None) -> None:
        self.plugin = plugin
        self.name = name
        self._first = values
        self._values: Mapping[str, object] | None = None
        self._error = ""
        self._turned: asyncio.Event

    def tell(self, values: Mapping[str, object]) -> Turn:
        """Let it say these values, all there are."""
        return lambda _: self._turn(values, "")

    def fail(self, error: str) -> Turn:
        """Let it fail whenever it is asked."""
        return lambda _: self._turn(None, error)

    def fall_silent(self) -> Turn:
        """Let it say nothing any more: what it has said grows old."""
        return lambda _: self._turn(None, "")

    def _turn(self, values: Mapping[str, object] | None, error: str) -> None:
        self._values, self._error = values, error
        self._turned.set()

    def play(self, source: Source[object]) -> None:
        """Speak in the place of this source, from the beginning."""
        self._values, self._error, self._turned = self._first, "", asyncio.Event()
        every = source.settings.every

        async def told() -> AsyncGenerator[Mapping[str, object]]:
            while True:
                self._turned.clear()
                if self._error:
                    raise ConnectionError(self._error)
                if self._values is not None:
                    yield self._values
                try:
                    async with asyncio.timeout(every if self._values is not None else None):
                        await self._turned.wait()
                except TimeoutError:
                    continue  # it says the same again

        source.fetch = told
        source.settings = msgspec.structs.replace(source.settings, timeout=None)

    def __repr__(self) -> str:
        return f"<SourceScript {self.plugin}/{self.name}: {self._error or self._values}>"
