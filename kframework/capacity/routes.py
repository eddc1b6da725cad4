"""`POST /fit` at the port of a running scheduler: whether pods fit on its nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from kframework.errors import ExplainError
from kframework.explain.routes import json_answer
from kframework.objects.codec import describe_decode_error
from kframework.scheduler.cooperative import run_cooperatively
from kframework.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from aiohttp import web

#: The size of a request, in bytes.
MAX_BYTES = 4 << 20


def fit_route(scheduler: Scheduler) -> web.RouteDef:
    """Return the route that answers a FitRequest with a FitResult, one request at a time; 400 with an `error`."""
    from aiohttp import web

    engine, one_at_a_time = scheduler.engine, asyncio.Lock()

    async def handle(request: web.Request) -> web.Response:
        from kframework.capacity.live_fit import FitRequest, fit_steps  # 20 modules with those of /explain, 12 ms

        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > MAX_BYTES:
                raise web.HTTPRequestEntityTooLarge(MAX_BYTES, len(body))
        try:
            question = msgspec.json.decode(body, type=FitRequest)
            async with one_at_a_time:
                return json_answer(await run_cooperatively(engine.cluster, fit_steps(engine, question)))
        except msgspec.DecodeError as error:
            return json_answer({"error": describe_decode_error(error)}, status=400)
        except ExplainError as error:
            return json_answer({"error": str(error)}, status=400)

    return web.post("/fit", handle)
