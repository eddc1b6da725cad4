"""Metrics over HTTP: `/metrics`, `/metrics/resources` and `/metrics/slis`, as kube-scheduler has them; DELETE resets.

A response may have a series for every pod, so it is written piece by piece, and the scheduler works meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING

from kframework.observe.metrics import families
from kframework.observe.metrics.engine_metrics import pod_resources
from kframework.observe.metrics.metrics import HealthMetrics, build_info, enabled_features
from kframework.observe.metrics.series import ScrapedSeries, Series, format_series, select_minor
from kframework.scheduler.cooperative import wait_until_idle
from kframework.scheduler.scheduler import E, Scheduler

if TYPE_CHECKING:
    from aiohttp import web

_HEADERS = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8", "X-Content-Type-Options": "nosniff"}

#: For how long an answer is written before others run, in seconds.
_SLICE = 0.001


def metrics_routes(scheduler: Scheduler[E], series: Iterable[Series], health: HealthMetrics) -> list[web.RouteDef]:
    election, gates = scheduler.configuration.settings.leader_election, scheduler.configuration.options.gates
    own = (*select_minor(series, gates.minor), build_info(gates.minor), enabled_features(gates))
    if election.leader_elect:
        name = election.resource_name
        leads = ScrapedSeries(families.LEADER_ELECTION_MASTER_STATUS, lambda: {(name,): int(not scheduler.standing_by)})
        own = (*own, leads)
    resources = pod_resources(scheduler.engine)

    async def all_pieces() -> AsyncIterator[bytes]:
        async for piece in _in_slices(own):
            yield piece
        yield await asyncio.to_thread(_other_metrics)

    async def pod_pieces() -> AsyncIterator[bytes]:
        await wait_until_idle(scheduler.engine.cluster)
        # One replica reports the pods, the others none.
        async for piece in _in_slices(() if scheduler.standing_by else resources):
            yield piece

    return [
        *_routes("/metrics", all_pieces, own),
        *_routes("/metrics/resources", pod_pieces, resources),
        *_routes("/metrics/slis", lambda: _in_slices(health.series), health.series),
    ]


def _routes(path: str, pieces: Callable[[], AsyncIterator[bytes]], series: Iterable[Series]) -> list[web.RouteDef]:
    from aiohttp import web

    async def show(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        response.enable_compression()
        await response.prepare(request)
        with suppress(ConnectionResetError):  # the client may have disconnected
            async for piece in pieces():
                await response.write(piece)
            await response.write_eof()
        return response

    async def reset(request: web.Request) -> web.Response:
        for each in series:
            each.reset()
        return web.Response(text="metrics reset\n")

    return [web.get(path, show, allow_head=False), web.delete(path, reset)]


async def _in_slices(series: Iterable[Series]) -> AsyncIterator[bytes]:
    """Join the pieces written within a slice of time, and let other tasks run between two slices."""
    pieces_of_slice, start = list[str](), perf_counter()
    for piece in chain.from_iterable(map(format_series, series)):
        pieces_of_slice.append(piece)
        if perf_counter() - start >= _SLICE:
            yield "".join(pieces_of_slice).encode()
            await asyncio.sleep(0)
            pieces_of_slice, start = [], perf_counter()
    yield "".join(pieces_of_slice).encode()


def _other_metrics() -> bytes:
    """Write the metrics registered with prometheus-client itself: the process, Python, and those of plugins."""
    from prometheus_client import generate_latest

    return generate_latest()
