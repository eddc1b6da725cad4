"""Plugins that go by outside data."""

from __future__ import annotations

from typing import Any

from kframework import (
    CycleState,
    Handle,
    NodeInfo,
    PendingPod,
    Plugin,
    PluginArgs,
    Source,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.framework.plugin import Reads
from kframework.framework.source import KeyedBy


async def fetch_nothing() -> dict[str, Any]:
    """Fetch that there is nothing."""
    return {}


def busy_plugin(reads: Reads = "node", keyed_by: KeyedBy = "node", **options: Any) -> type[Plugin]:
    """Make a plugin `Load` that rejects nodes by the data of its source `load`, under their names."""

    class Load(Plugin):
        name = "Load"

        def __init__(self, args: PluginArgs, handle: Handle) -> None:
            super().__init__(args, handle)
            self.load: Source[float] = handle.source(
                "load", float, fetch_nothing, keyed_by=keyed_by, **({"every": 10} | options)
            )

        @hookimpl
        def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
            return unschedulable("too busy") if self.load.get(node.name, 0.0) > 0.5 else None

        @hookimpl
        def events_to_register(self) -> tuple[()]:
            return ()

    Load.reads = reads
    return Load


def changing_plugin(*, asked: list[str] | None = None) -> type[Plugin]:
    """Make a plugin whose source changes, then fails until it is stale."""
    says = iter([{"a": 0.9}, {"a": 0.9}, {"a": 0.1, "b": 0.9}, {"a": 0.1, "b": 0.2}])

    class Load(busy_plugin(stale_after=40)):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: PluginArgs, handle: Handle) -> None:
            super().__init__(args, handle)
            self.load.fetch = self.fetch

        async def fetch(self) -> dict[str, float]:
            if asked is not None:
                asked.append("asked")
            try:
                return next(says)
            except StopIteration:
                raise ConnectionError("no route") from None

    return Load
