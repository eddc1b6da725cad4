"""The page of a running scheduler, at its HTTP port, and the page's data."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from kframework.observe.web.nodes import node_pods, nodes
from kframework.observe.web.pods import find_pods, queues
from kframework.observe.web.profiles import profile_parts
from kframework.observe.web.summary import attempts, summary
from kframework.observe.web.view import EngineView, live_page
from kframework.scheduler.cooperative import run_cooperatively, wait_until_idle
from kframework.scheduler.scheduler import E
from kframework.state.cluster import ClusterState

if TYPE_CHECKING:
    from aiohttp import web

_Query = Mapping[str, str]


_NO_SNIFFING = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


class _Wrong(Exception):
    """Raised for a question that cannot be answered: the status of the answer, and its line."""

    def __init__(self, status: int, line: str) -> None:
        super().__init__(line)
        self.status = status


def web_routes(shown: EngineView[E]) -> list[web.RouteDef]:
    """Return the routes of the page and of its data; `/explain`, which it asks where there is more, is another's.

    Nothing is changed by any of them.
    """
    from aiohttp import web

    engine, history = shown.engine, shown.history

    async def page(request: web.Request) -> web.Response:
        document = await asyncio.to_thread(live_page)  # the first time it is read from files
        headers = {**_NO_SNIFFING, "Content-Security-Policy": document.policy, "Referrer-Policy": "no-referrer"}
        return web.Response(text=document.html, content_type="text/html", headers=headers)

    def wanted_queues(query: _Query) -> object:
        held_by = (query.get("profile", ""), query["plugin"]) if "plugin" in query else None
        return queues(shown, place=query.get("place", ""), held_by=held_by)

    def wanted_node(query: _Query) -> object:
        found = node_pods(engine.cluster, query.get("name", ""))
        if found is None:
            raise _Wrong(404, f"there is no node {query.get('name', '')!r}")
        return found

    def wanted_attempts(query: _Query) -> object:
        after = query.get("after", "0")
        if not re.fullmatch("[0-9]{1,18}", after):
            raise _Wrong(400, "after must be the number of an attempt")
        return attempts(history, after=int(after), pod=query.get("pod", ""))

    views: dict[str, Callable[[_Query], object]] = {
        "summary": lambda query: summary(shown),
        "queues": wanted_queues,
        "attempts": wanted_attempts,
        "sections": lambda query: shown.sections(),
        "details": lambda query: shown.details(query.get("sort", ""), query.get("name", "")),
        "nodes": lambda query: nodes(engine.cluster.nodes),
        "node": wanted_node,
        "profiles": lambda query: profile_parts(engine.profiles, history, engine.clock.now()),
        "find": lambda query: run_cooperatively(engine.cluster, find_pods(shown, query.get("text", ""))),
    }
    return [
        web.get("/", page),
        *(web.get(f"/view/{name}", _answering(engine.cluster, view)) for name, view in views.items()),
    ]


def _answering(
    cluster: ClusterState, view: Callable[[_Query], object]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return a handler that shows a view of the settled state, without the what-if changes of an engine."""
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        await wait_until_idle(cluster)
        try:
            status, found = 200, view(request.query)
            if inspect.isawaitable(found):
                found = await found
        except _Wrong as wrong:
            status, found = wrong.status, {"error": str(wrong)}
        body = msgspec.json.encode(found)
        response = web.Response(body=body, status=status, content_type="application/json", headers=_NO_SNIFFING)
        response.enable_compression()
        return response

    return answer
