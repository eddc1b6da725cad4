"""A scheduler stepped by hand, whose page is served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

from kframework.errors import ClusterError
from kframework.explain.routes import explain_routes
from kframework.explain.view import PodEngineView
from kframework.observe.web.routes import web_routes
from kframework.process.http.endpoints import Listener, serve
from kframework.scheduler.scheduler import Scheduler
from tests.explain.scene import Scene

__all__ = ["served"]


@asynccontextmanager
async def served(scene: Scene) -> AsyncIterator[str]:
    """Serve the page of a scene and all that it asks for; yield its address."""
    engine, api = scene.engine, SimpleNamespace(get=_nothing)
    stand_in = SimpleNamespace(engine=engine, profiles=engine.profiles, api=api, standing_by=False)
    scheduler = cast("Scheduler", stand_in)
    shown = PodEngineView(engine, scene.history)
    routes = [*web_routes(shown), *explain_routes(scheduler, scene.history)]
    async with serve(routes, Listener(port=0)) as url:
        yield url


async def _nothing(kind: type, name: str, namespace: str) -> None:
    raise ClusterError(f"there is no {name}", status=404)
