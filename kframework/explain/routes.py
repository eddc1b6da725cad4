"""Explanations over HTTP: `GET /explain?pod=NAMESPACE/NAME` at the port of a running scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kframework.errors import ClusterError, ExplainError
from kframework.objects import Pod
from kframework.observe.history import History
from kframework.scheduler.cooperative import run_cooperatively
from kframework.scheduler.scheduler import Scheduler
from kframework.state.pods import PendingPod

if TYPE_CHECKING:
    from aiohttp import web

    from kframework.explain.explanation import Explanation

#: The addition to an explanation while another replica leads.
STANDBY_NOTE = "this scheduler is on standby while another replica leads"

_NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}


def explain_routes(scheduler: Scheduler, history: History) -> list[web.RouteDef]:
    """Return the route that explains one pod in JSON; 404 with an `error` if that is impossible."""
    cluster = scheduler.engine.cluster

    async def explain(namespace: str, name: str) -> Explanation:
        # Here: a scheduler would import 20 modules before its first binding, which take 12 ms with those of /fit.
        from kframework.explain.explainer import explain_steps
        from kframework.explain.lookup import find_pod, not_found_message

        pod = await run_cooperatively(cluster, find_pod(scheduler.engine, namespace, name))
        whole = None
        if not isinstance(pod, PendingPod):
            with suppress(ClusterError):  # the API has none, or fails
                whole = await scheduler.api.get(Pod, name, namespace)
        if pod is None:
            raise ExplainError(not_found_message(scheduler.engine, namespace, name, whole))
        explanation = await run_cooperatively(cluster, explain_steps(scheduler.engine, history, pod, whole))
        if scheduler.standing_by:
            return msgspec.structs.replace(explanation, notes=(*explanation.notes, STANDBY_NOTE))
        return explanation

    return [explain_route(explain)]


def explain_route(explain: Callable[[str, str], Awaitable[object]]) -> web.RouteDef:
    """Return the route that explains a namespaced object, one request at a time; ExplainError is a 404."""
    from aiohttp import web

    one_at_a_time = asyncio.Lock()

    async def handle(request: web.Request) -> web.Response:
        prefix, _, name = (request.query.get("pod") or request.query.get("job", "")).rpartition("/")
        namespace = prefix.rpartition("/")[2]  # a job's key may begin with an API group
        if not namespace or not name:
            return json_answer({"error": "name a pod: /explain?pod=NAMESPACE/NAME"}, status=400)
        try:
            async with one_at_a_time:
                return json_answer(await explain(namespace, name))
        except ExplainError as error:
            return json_answer({"error": str(error)}, status=404)

    return web.get("/explain", handle)


def json_answer(data: object, *, status: int = 200) -> web.Response:
    """Return a response that browsers take for nothing but JSON."""
    from aiohttp import web

    body = msgspec.json.encode(data)
    return web.Response(body=body, status=status, content_type="application/json", headers=_NO_SNIFFING)
