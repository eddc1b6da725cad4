"""The page of a running scheduler, at its HTTP port, and the page's data."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from kframework.observe.web.nodes import describe_node, list_nodes
from kframework.observe.web.pods import find_pods, list_queues
from kframework.observe.web.profiles import profile_views
from kframework.observe.web.shadows import list_shadows
from kframework.observe.web.summary import list_attempts, summarise_scheduler
from kframework.observe.web.view import EngineView, live_page
from kframework.scheduler.cooperative import run_cooperatively, wait_until_idle
from kframework.scheduler.scheduler import E
from kframework.state.cluster import ClusterState

if TYPE_CHECKING:
    from aiohttp import web

_Query = Mapping[str, str]


_NO_SNIFFING = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class _RequestError(Exception):
    """Raised for a question that cannot be answered: the status of the answer, and its line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def web_routes(view: EngineView[E]) -> list[web.RouteDef]:
    """Return the routes of the page and of its data, which change nothing; `/explain` is another's."""
    from aiohttp import web

    engine, history = view.engine, view.history

    async def page(request: web.Request) -> web.Response:
        document = await asyncio.to_thread(live_page)  # the first time it is read from files
        headers = {**_NO_SNIFFING, "Content-Security-Policy": document.policy, "Referrer-Policy": "no-referrer"}
        return web.Response(text=document.html, content_type="text/html", headers=headers)

    def queues_view(query: _Query) -> object:
        held_by = (query.get("profile", ""), query["plugin"]) if "plugin" in query else None
        return list_queues(view, queue=query.get("queue", ""), held_by=held_by)

    def node_view(query: _Query) -> object:
        result = describe_node(engine.cluster, query.get("name", ""))
        if result is None:
            raise _RequestError(404, f"there is no node {query.get('name', '')!r}")
        return result

    def attempts_view(query: _Query) -> object:
        after = query.get("after", "0")
        if not re.fullmatch("[0-9]{1,18}", after):
            raise _RequestError(400, "after must be the number of an attempt")
        return list_attempts(history, after=int(after), pod=query.get("pod", ""))

    views: dict[str, Callable[[_Query], object]] = {
        "summary": lambda query: summarise_scheduler(view),
        "queues": queues_view,
        "attempts": attempts_view,
        "sections": lambda query: view.sections(),
        "details": lambda query: view.details(query.get("kind", ""), query.get("name", "")),
        "nodes": lambda query: list_nodes(engine.cluster.nodes),
        "node": node_view,
        "profiles": lambda query: profile_views(engine.profiles, history, engine.clock.now()),
        "shadows": lambda query: list_shadows(engine),
        "find": lambda query: run_cooperatively(engine.cluster, find_pods(view, query.get("text", ""))),
    }
    return [
        web.get("/", page),
        *(web.get(f"/view/{name}", _json_handler(engine.cluster, view)) for name, view in views.items()),
    ]


def _json_handler(
    cluster: ClusterState, view: Callable[[_Query], object]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    from aiohttp import web

    async def handle(request: web.Request) -> web.Response:
        await wait_until_idle(cluster)
        try:
            status, result = 200, view(request.query)
            if inspect.isawaitable(result):
                result = await result
        except _RequestError as error:
            status, result = error.status, {"error": str(error)}
        body = msgspec.json.encode(result)
        response = web.Response(body=body, status=status, content_type="application/json", headers=_NO_SNIFFING)
        response.enable_compression()
        return response

    return handle
