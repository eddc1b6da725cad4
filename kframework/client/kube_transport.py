"""Requests over HTTP with aiohttp; only `kube.connect` imports this module, because of aiohttp's import time."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import lru_cache
from urllib.parse import urlencode, urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from kframework.client.login import Login
from kframework.client.transport import Request, Response, Stream, Transport
from kframework.errors import ClusterError, ConfigError

_log = logging.getLogger(__name__)

#: How long opening a connection may take, in seconds.
CONNECT_TIMEOUT = 10.0

#: Most bytes of a line of a stream, and of a whole response: an object has 1.5 MiB at most, a list of all pods of a
#: large cluster some hundred.
MAX_LINE_BYTES = 4 << 20
MAX_RESPONSE_BYTES = 1 << 30

_CHUNK = 1 << 18
_AUTHORIZATION = "Authorization"
_FAILURES = (aiohttp.ClientError, OSError, ValueError)


class _Body(aiohttp.BytesPayload):
    """A body that calls `check` when it is sent, because the request may have waited for a connection."""

    def __init__(self, body: bytes, check: Callable[[], None]) -> None:
        super().__init__(body)
        self._check = check

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()  # nothing is sent yet: aiohttp sends the head with the first of the body
        await super().write_with_length(writer, content_length)


class KubeTransport(Transport):
    """Sends requests over HTTP; on 401 it logs in again and repeats the request once."""

    def __init__(self, credentials: Login, user_agent: str) -> None:
        self._credentials = credentials
        self._host = credentials.host
        self._server_name = credentials.server_name
        self._user_agent = user_agent
        self._session = self._open_session()
        self._renewal: asyncio.Task[None] | None = None
        self._login = 0
        #: Why the last login failed, "" if it did not.
        self._problem = ""

    @property
    def address(self) -> str:
        return urlsplit(self._host).netloc

    @property
    def description(self) -> str:
        """The server, and who logs in there, for messages."""
        return self._credentials.description

    async def send(self, request: Request) -> Response:
        login = self._login
        response = await self._send_once(request)
        if response.status == 401 and await self._has_new_login(login):
            response = await self._send_once(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        login = self._login
        response = await self._open(request, _timeout(None, request.timeout))
        if response.status == 401 and await self._has_new_login(login):
            response.close()
            response = await self._open(request, _timeout(None, request.timeout))
        try:
            async with aclosing(_split_lines(request, response)) as lines:
                yield Stream(response.status, lines, response.headers)
        finally:
            response.close()

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await self._session.close()

    async def _send_once(self, request: Request) -> Response:
        try:
            response = await self._open(request, _timeout(request.timeout, None))
            try:
                return Response(response.status, await _read_body(response), response.headers)
            finally:
                response.close()
        except _FAILURES as error:
            raise _unanswered_error(request, error) from error

    async def _open(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._credentials.due <= asyncio.get_running_loop().time():
            self._renew()  # the old credentials are valid meanwhile
        url = self._host + request.path
        if request.query:
            url += "?" + urlencode(request.query)
        check = request.check_before_send
        try:
            return await self._session.request(
                request.method,
                URL(url, encoded=True),
                data=_Body(request.body, check) if check else request.body or None,
                headers={"Accept": request.accept, "Content-Type": request.content_type},
                timeout=limits,
                server_hostname=self._server_name,
                allow_redirects=False,
            )
        except _FAILURES as error:
            if isinstance(error.__cause__, ClusterError):
                raise error.__cause__ from None  # raised by `check_before_send`
            raise _unanswered_error(request, error) from error

    def _open_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=self._credentials.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compression costs both sides more than the bytes do.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
            proxy=self._credentials.proxy,
            read_bufsize=_CHUNK,
        )
        if self._credentials.authorization is not None:
            session.headers[_AUTHORIZATION] = self._credentials.authorization
        return session

    async def _has_new_login(self, login: int) -> bool:
        """Return whether the credentials differ from those of this login; log in again if they do not."""
        if login == self._login:
            await asyncio.shield(self._renew())
        return login != self._login

    def _renew(self) -> asyncio.Task[None]:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.get_running_loop().create_task(self._log_in())
        return self._renewal

    async def _log_in(self) -> None:
        before = self._credentials.authorization
        try:
            reconnect = await self._credentials.renew()
            if reconnect:
                old, self._session = self._session, self._open_session()
                await old.close()
        except ConfigError as error:
            if self._problem != str(error):
                self._problem = str(error)
                _log.warning("%s", error)
            return
        self._problem = ""
        now = self._credentials.authorization
        if now is not None:
            self._session.headers[_AUTHORIZATION] = now
        if reconnect or now != before:
            self._login += 1


@lru_cache(maxsize=16)
def _timeout(total: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT, sock_read=read)


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Read a whole response; ValueError if it is larger than MAX_RESPONSE_BYTES."""
    if response.content_length is not None and response.content_length <= MAX_RESPONSE_BYTES:
        return await response.read()
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_RESPONSE_BYTES:
            raise ValueError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
    return bytes(body)


async def _split_lines(request: Request, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Split a response into lines; one that is no stream is yielded as a whole."""
    try:
        if response.status != 200:
            yield await _read_body(response)
            return
        rest = b""
        async for piece in response.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line:
                    yield line
            if len(rest) > MAX_LINE_BYTES:
                raise ValueError(f"a line is longer than {MAX_LINE_BYTES} bytes")
        if rest:
            yield rest
    except _FAILURES as error:
        raise _unanswered_error(request, error) from error


def _unanswered_error(request: Request, error: Exception) -> ClusterError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = error.certificate_error
        text = reason.verify_message if isinstance(reason, ssl.SSLCertVerificationError) else str(reason)
        why = f"the certificate of {error.host}:{error.port} is not trusted ({text}); see certificate-authority"
    elif isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        text = os.strerror(number).lower() if number else str(error.os_error)
        why = f"cannot connect to {error.host}:{error.port}: {text}"
    elif isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        why = f"no answer within {request.timeout:g} s" if request.timeout is not None else "no answer in time"
    else:
        why = str(error) or type(error).__name__
    return ClusterError(f"{request.method} {request.path}: {why}", status=0, retryable=True)
