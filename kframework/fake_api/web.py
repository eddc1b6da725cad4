"""The fake API server over HTTP: a thin front that reads requests, finds out who sends them, and writes answers.

Unless told otherwise it listens without TLS and takes everybody for an administrator, and so on this machine only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec.structs import replace

from kframework.client.loopback import MISDIRECTED, is_host_allowed
from kframework.client.request_attributes import Attributes
from kframework.client.transport import AUTHENTICATED, JSON, Request, Response, User
from kframework.errors import ClusterError
from kframework.fake_api.authentication import impersonated
from kframework.fake_api.server import ApiServer
from kframework.fake_api.watches import Watch
from kframework.process.http.connections import Connections, listening
from kframework.process.http.statuses import NOBODY, failure

if TYPE_CHECKING:
    import ssl

#: How many bytes a request may send, as with a real API server.
LARGEST_BODY = 3 << 20

#: How many connections there may be: a client has one for each kind that it watches, and one for each request.
CONNECTIONS = 4096

#: How long the body of a request may take, in seconds.
BODY = 60.0

#: How long requests under way may take at the end, in seconds; watches have no end of their own.
_AT_THE_END = 0.1

_log = logging.getLogger(__name__)


@asynccontextmanager
async def serve(
    server: ApiServer, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve over HTTP while in the context, and yield the port, 0 being any free one; OSError if it is taken."""
    connections = Connections(CONNECTIONS, lambda: tls)

    async def handle(asked: web.BaseRequest) -> web.StreamResponse:
        with connections.asked(asked):
            return await _handle(server, host, asked)

    # The watch of a client that is gone is cancelled at once, not at the next event that it would have been told.
    web_server = web.Server(handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(web_server, shutdown_timeout=_AT_THE_END)
    async with listening(runner, connections, host, port) as (_, found):
        yield found


async def _handle(server: ApiServer, host: str, asked: web.BaseRequest) -> web.StreamResponse:
    try:
        if not is_host_allowed(host, asked.host):
            raise ClusterError(MISDIRECTED, status=421, reason="BadRequest")
        user = _user(server, asked)
        request = await _request(asked, user)
        await server.prepare(request)
        request, warnings = await server.webhooks.reviewed(request)
        answer = server.begin(request)
        if isinstance(answer, Response) and warnings:
            answer = replace(answer, headers={**answer.headers, **warnings})
    except ClusterError as refused:
        answer = failure(refused, NOBODY)
    except Exception:
        _log.exception("%s %s failed", asked.method, asked.path)
        fault = ClusterError("the fake API server has a fault; see its log", status=500, reason="InternalError")
        answer = failure(fault, NOBODY)
    if isinstance(answer, Response):
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
    return await _streamed(asked, answer)


def _user(server: ApiServer, asked: web.BaseRequest) -> User:
    """Find out as whom a request is to be answered; ClusterError 401, or 403 for who may not act as another."""
    sender = server.authenticator.user(asked.headers)
    other = impersonated(asked.headers)
    if other is None:
        return sender
    server.authorizer.check(sender, Attributes("impersonate", resource="users", name=other.name))
    for group in other.groups:
        if group != AUTHENTICATED:
            server.authorizer.check(sender, Attributes("impersonate", resource="groups", name=group))
    return other


async def _request(asked: web.BaseRequest, user: User) -> Request:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY):
            async for chunk in asked.content.iter_any():
                body += chunk
                if len(body) > LARGEST_BODY:
                    message = f"Request entity too large: limit is {LARGEST_BODY}"
                    raise ClusterError(message, status=413, reason="RequestEntityTooLarge")
    except TimeoutError as error:
        message = f"the body of the request did not come within {BODY:g} s"
        raise ClusterError(message, status=408, reason="Timeout") from error
    return Request(
        method=asked.method,
        path=asked.path,
        query=tuple(asked.query.items()),
        body=bytes(body),
        content_type=asked.headers.get("content-type", JSON),
        accept=asked.headers.get("accept", JSON),
        if_none_match=asked.headers.get("if-none-match", ""),
        user=user,
        user_agent=asked.headers.get("user-agent", ""),
    )


async def _streamed(asked: web.BaseRequest, watch: Watch) -> web.StreamResponse:
    """Write a watch until it ends or its client goes; a client that reads slowly holds up nobody but itself."""
    response = web.StreamResponse(headers={"content-type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(asked)
    async with aclosing(watch.batches()) as batches:
        try:
            async for batch in batches:
                await response.write(b"".join([line + b"\n" for line in batch]))
            await response.write_eof()
        except ConnectionError:
            pass  # the client is gone: nobody is left to be told
    return response
