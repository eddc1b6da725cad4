"""The fake API server over HTTP: decodes requests, authenticates, and encodes answers.

By default it listens without TLS, and therefore on the loopback interface only, with every user an administrator.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec.structs import replace

from kframework.client.loopback import MISDIRECTED, host_of, is_host_allowed, is_loopback
from kframework.client.transport import JSON, Request, Response, User
from kframework.errors import ClusterError
from kframework.fake_api.authentication import impersonated_user, impersonation_attributes
from kframework.fake_api.server import ApiServer
from kframework.fake_api.watches import WatchStream
from kframework.process.http.connections import Connections, listen_at
from kframework.process.http.statuses import NO_SUBJECT, failure

if TYPE_CHECKING:
    import ssl

#: Limit of a request's body in bytes, as on a real API server.
MAX_BODY_BYTES = 3 << 20

#: Limit of connections: a client has one per watched kind, and one per request.
MAX_CONNECTIONS = 4096

#: How long receiving a request's body may take, in seconds.
BODY_TIMEOUT = 60.0

#: How long requests in flight may take at shutdown, in seconds; watches do not end by themselves.
_SHUTDOWN_TIMEOUT = 0.1

_log = logging.getLogger(__name__)


@asynccontextmanager
async def serve(
    server: ApiServer, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve over HTTP while in the context, and yield the port, 0 for any free one; OSError if it is taken."""
    connections = Connections(MAX_CONNECTIONS, lambda: tls)

    async def handle(http_request: web.BaseRequest) -> web.StreamResponse:
        with connections.in_request(http_request):
            return await _handle(server, host, http_request)

    # Cancels the watch of a disconnected client at once, not at its next event.
    web_server = web.Server(handle, handler_cancellation=True, access_log=None)
    runner = web.ServerRunner(web_server, shutdown_timeout=_SHUTDOWN_TIMEOUT)
    async with listen_at(runner, connections, host, port) as (_, bound_port):
        yield bound_port


async def _handle(server: ApiServer, host: str, http_request: web.BaseRequest) -> web.StreamResponse:
    try:
        if not is_host_allowed(host, http_request.host):
            raise ClusterError(MISDIRECTED, status=421, reason="BadRequest")
        _check_origin(http_request)
        user = _effective_user(server, http_request)
        request = await _read_request(http_request, user)
        await server.prepare(request)
        request, warnings = await server.webhooks.review(request)
        answer = server.begin(request)
        if isinstance(answer, Response) and warnings:
            answer = replace(answer, headers={**answer.headers, **warnings})
    except ClusterError as error:
        answer = failure(error, NO_SUBJECT)
    except Exception:
        _log.exception("%s %s failed", http_request.method, http_request.path)
        fault = ClusterError("internal error of the fake API server; see its log", status=500, reason="InternalError")
        answer = failure(fault, NO_SUBJECT)
    if isinstance(answer, Response):
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
    return await _write_watch(http_request, answer)


def _check_origin(http_request: web.BaseRequest) -> None:
    """Raise ClusterError 403 for a request of a foreign web page, which a browser sends without asking first."""
    origin = http_request.headers.get("origin", "")
    if origin and not is_loopback(host_of(origin)) and host_of(origin) != host_of(http_request.host):
        raise ClusterError(f"requests of the web page {origin:.100} are refused", status=403, reason="Forbidden")


def _effective_user(server: ApiServer, http_request: web.BaseRequest) -> User:
    sender = server.authenticator.authenticate(http_request.headers)
    other = impersonated_user(http_request.headers)
    if other is None:
        return sender
    for attributes in impersonation_attributes(http_request.headers):
        server.authorizer.check(sender, attributes)
    return other


async def _read_request(http_request: web.BaseRequest, user: User) -> Request:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in http_request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    message = f"Request entity too large: limit is {MAX_BODY_BYTES}"
                    raise ClusterError(message, status=413, reason="RequestEntityTooLarge")
    except TimeoutError as error:
        message = f"the body of the request was not received within {BODY_TIMEOUT:g} s"
        raise ClusterError(message, status=408, reason="Timeout") from error
    return Request(
        method=http_request.method,
        path=http_request.path,
        query=tuple(http_request.query.items()),
        body=bytes(body),
        content_type=http_request.headers.get("content-type", JSON),
        accept=http_request.headers.get("accept", JSON),
        if_none_match=http_request.headers.get("if-none-match", ""),
        user=user,
        user_agent=http_request.headers.get("user-agent", ""),
    )


async def _write_watch(http_request: web.BaseRequest, watch: WatchStream) -> web.StreamResponse:
    """Write a watch until it ends or its client disconnects; a slow client delays no other."""
    response = web.StreamResponse(headers={"content-type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(http_request)
    async with aclosing(watch.batches()) as batches:
        try:
            async for batch in batches:
                await response.write(b"".join([line + b"\n" for line in batch]))
            await response.write_eof()
        except ConnectionError:
            pass  # the client has disconnected
    return response
