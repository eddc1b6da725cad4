"""A second engine on a clock that does not move, with a view of its own beside that of any engine, and its page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from kframework.clock import VIRTUAL_EPOCH
from kframework.config.load import default_configuration
from kframework.core.cycle.records import Decision
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.runtime.registry import Registry
from kframework.engine import (
    ColumnKind,
    DetailView,
    EngineExplanation,
    EngineView,
    PodView,
    Ref,
    Row,
    Section,
    SectionColumn,
    Tone,
)
from kframework.objects import ApiObject
from kframework.observe.history import History
from kframework.observe.web.routes import web_routes
from kframework.process.http.endpoints import Listener, serve
from kframework.state.inbox import Synced, Upserted
from tests.support.closed_engine import ClosedEngine

__all__ = ["SecondShown", "second", "served"]


class _Outside(Host):
    """The clock and the observers of an engine that is stepped by hand."""

    def __init__(self) -> None:
        self.history = History()

    def now(self) -> float:
        return VIRTUAL_EPOCH

    def report_decision(self, decision: Decision) -> None:
        self.history.on_decision(decision)


class SecondShown(EngineView[ClosedEngine]):
    """Shows the text written on the door, with `text` as a part."""

    text = "open on Monday"

    def count_by_queue(self) -> Mapping[str, int]:
        return {"queue at the door": len(self.engine.pending)}

    def pods_in(self, queue: str) -> Iterable[PodView]:
        for pod in self.engine.pending.values() if queue in self.count_by_queue() else ():
            yield PodView(pod.key, queue, "p", 0, None, VIRTUAL_EPOCH, 1, plugins=("Guard",), held=True)

    def count_by_plugin(self) -> Mapping[tuple[str, str], int]:
        return {("p", "Guard"): len(self.engine.pending)}

    def pods_held_by(self, holder: tuple[str, str]) -> Iterable[PodView]:
        return self.pods_in("queue at the door") if holder == ("p", "Guard") else ()

    def sections(self) -> tuple[Section, ...]:
        columns = (
            SectionColumn("Day"),
            SectionColumn("Guests", ColumnKind.NUMBER),
            SectionColumn("Full", ColumnKind.SHARE),
            SectionColumn("Tables", ColumnKind.AMOUNTS),
            SectionColumn("Opened", ColumnKind.MOMENT),
            SectionColumn("Took", ColumnKind.DURATION),
            SectionColumn("Said", ColumnKind.SENTENCE),
            SectionColumn("Guest"),
        )
        fills = {"cpu": (1500, 3000), "memory": (1 << 30, 0)}
        guest = Ref("pod", "default/web")
        rows = [
            Row((Ref("day", "monday", "Monday"), 1234, 0.25, fills, VIRTUAL_EPOCH, 1_500_000, self.text, guest)),
            Row(("Tuesday", None, None, None, None, None, None, None), Tone.BAD),
        ]
        return (
            Section.from_rows("days", "Opening days", columns, rows, 7, note="As posted."),
            Section.from_rows("more", "Nothing", (), (), 0),
        )

    def details(self, kind: str, name: str) -> DetailView:
        if (kind, name) != ("day", "monday"):
            return DetailView()
        rows = [Row((f"{self.text} {hour}",)) for hour in (9, 10)]
        return DetailView(
            (Section.from_rows("hours", "Hours", [SectionColumn("Hour")], rows, 2),), has_explanation=True
        )

    def explanations(self, kind: str, names: Sequence[str]) -> Mapping[str, object]:
        return {name: self.explanation() for name in names if kind == "day"}

    def explanation(self) -> object:
        return EngineExplanation("second", f"It is {self.text}.\nCome on Monday.\n", "", msgspec.Raw(b"{}"))


def second(*objects: ApiObject, shown: type[EngineView[ClosedEngine]] = SecondShown) -> EngineView[ClosedEngine]:
    """Make what is shown of an engine that has seen these objects."""
    outside, configuration = _Outside(), default_configuration()
    profiles = profiles_factory(configuration, Registry.from_installed(), outside)
    engine = ClosedEngine(configuration, outside, outside, None, profiles)
    for obj in objects:
        engine.offer(Upserted(obj))
    engine.offer(Synced())
    engine.step()
    return shown(engine, outside.history)


@asynccontextmanager
async def served(shown: EngineView[ClosedEngine]) -> AsyncIterator[str]:
    """Serve the page, and what it asks about Monday; yield its address."""
    from aiohttp import web

    async def explain(request: web.Request) -> web.Response:
        assert dict(request.query) == {"day": "monday"}
        said = msgspec.json.encode(shown.explanations("day", ["monday"])["monday"])
        return web.json_response(text=said.decode())

    async with serve([*web_routes(shown), web.get("/explain", explain)], Listener(port=0)) as url:
        yield url
