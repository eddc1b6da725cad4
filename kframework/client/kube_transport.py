"""Requests over HTTP with aiohttp; `kube.connect` imports this module when a cluster is opened, and nobody before."""

from __future__ import annotations

import asyncio
import logging
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

#: Seconds until a connection must be there.
CONNECT_TIMEOUT = 10.0

#: The most bytes that one line of a stream, and one whole answer, may have: an object has 1.5 MiB at most, a list of
#: all pods of a large cluster some hundred.
LONGEST_LINE = 4 << 20
LARGEST_ANSWER = 1 << 30

_CHUNK = 1 << 18
_AUTHORIZATION = "Authorization"
_FAILURES = (aiohttp.ClientError, OSError, ValueError)


class _Body(aiohttp.BytesPayload):
    """A body that asks whether it may leave when it does: before that the request may have waited for a connection."""

    def __init__(self, body: bytes, may_leave: Callable[[], None]) -> None:
        super().__init__(body)
        self._may_leave = may_leave

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._may_leave()  # nothing of the request has been sent: aiohttp sends its head with the first of its body
        await super().write_with_length(writer, content_length)


class KubeTransport(Transport):
    """Speaks HTTP; whoever is not let in (401) logs in once more and asks again."""

    def __init__(self, credentials: Login, user_agent: str) -> None:
        self._credentials = credentials
        self._host = credentials.host
        self._server_name = credentials.server_name
        self._user_agent = user_agent
        self._session = self._open_session()
        self._renewal: asyncio.Task[None] | None = None
        self._login = 0

    @property
    def address(self) -> str:
        """The server's name or number, and its port."""
        return urlsplit(self._host).netloc

    async def send(self, request: Request) -> Response:
        login = self._login
        response = await self._sent(request)
        if response.status == 401 and await self._logged_in_since(login):
            response = await self._sent(request)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        login = self._login
        response = await self._opened(request, _timeout(None, request.timeout))
        if response.status == 401 and await self._logged_in_since(login):
            response.close()
            response = await self._opened(request, _timeout(None, request.timeout))
        try:
            async with aclosing(_lines(request, response)) as lines:
                yield Stream(response.status, lines, _headers(response))
        finally:
            response.close()

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await self._session.close()

    async def _sent(self, request: Request) -> Response:
        try:
            response = await self._opened(request, _timeout(request.timeout, None))
            try:
                return Response(response.status, await _body(response), _headers(response))
            finally:
                response.close()
        except _FAILURES as error:
            raise _no_answer(request, error) from error

    async def _opened(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._credentials.due <= asyncio.get_running_loop().time():
            self._renew()  # what there is still holds while that is under way
        url = self._host + request.path
        if request.query:
            url += "?" + urlencode(request.query)
        try:
            return await self._session.request(
                request.method,
                URL(url, encoded=True),
                data=_Body(request.body, request.may_leave) if request.may_leave else request.body or None,
                headers={"Accept": request.accept, "Content-Type": request.content_type},
                timeout=limits,
                server_hostname=self._server_name,
                allow_redirects=False,
            )
        except _FAILURES as error:
            if isinstance(error.__cause__, ClusterError):
                raise error.__cause__ from None  # it may not leave
            raise _no_answer(request, error) from error

    def _open_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=self._credentials.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressing costs both sides more than the bytes do.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
            proxy=self._credentials.proxy,
            read_bufsize=_CHUNK,
        )
        if self._credentials.authorization is not None:
            session.headers[_AUTHORIZATION] = self._credentials.authorization
        return session

    async def _logged_in_since(self, login: int) -> bool:
        """Return whether we have other credentials than at this login, after one more if need be."""
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
            _log.warning("%s", error)
            return
        now = self._credentials.authorization
        if now is not None:
            self._session.headers[_AUTHORIZATION] = now
        if reconnect or now != before:
            self._login += 1


@lru_cache(maxsize=16)
def _timeout(total: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT, sock_read=read)


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


async def _body(response: aiohttp.ClientResponse) -> bytes:
    """Read an answer as a whole; ValueError if it is larger than any that makes sense."""
    if response.content_length is not None and response.content_length <= LARGEST_ANSWER:
        return await response.read()
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise ValueError(f"the answer is longer than {LARGEST_ANSWER} bytes")
    return bytes(body)


async def _lines(request: Request, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Split an answer into lines; one that is no stream comes as a whole."""
    try:
        if response.status != 200:
            yield await _body(response)
            return
        rest = b""
        async for piece in response.content.iter_any():
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line:
                    yield line
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"a line is longer than {LONGEST_LINE} bytes")
        if rest:
            yield rest
    except _FAILURES as error:
        raise _no_answer(request, error) from error


def _no_answer(request: Request, error: Exception) -> ClusterError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = error.certificate_error
        text = reason.verify_message if isinstance(reason, ssl.SSLCertVerificationError) else str(reason)
        why = f"the certificate of {error.host}:{error.port} is not trusted ({text}); see certificate-authority"
    elif isinstance(error, aiohttp.ClientConnectorError):
        why = f"no connection to {error.host}:{error.port}: {error.os_error.strerror or error.os_error}"
    elif isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        why = f"no answer within {request.timeout:g} s" if request.timeout is not None else "no answer in time"
    else:
        why = str(error) or type(error).__name__
    return ClusterError(f"{request.method} {request.path}: {why}", status=0, retryable=True)
