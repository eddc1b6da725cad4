"""The HTTP connection to an extender: one POST per request, over TLS as configured."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kframework.client.loopback import PLAIN_HTTP, has_credentials, is_confidential
from kframework.config.models import ExtenderSettings, ExtenderTLSConfig
from kframework.core.cycle.suspendable import ExtenderError
from kframework.errors import ConfigError, format_os_error

if TYPE_CHECKING:
    import aiohttp

#: An answer may be this large in any case, and otherwise twice as large as its question, in bytes.
MAX_RESPONSE_BYTES = 16 << 20

_CHUNK = 1 << 16


class HttpExtenderTransport:
    """A connection over HTTP; ConfigError if the TLS settings are invalid."""

    def __init__(self, settings: ExtenderSettings) -> None:
        self._url = settings.url_prefix.rstrip("/")
        if has_credentials(self._url) and not is_confidential(self._url):
            raise ConfigError(f"couldn't build extenders: {settings.address}: {PLAIN_HTTP}", path="extenders")
        self._public_url = settings.address.rstrip("/")
        self._seconds = float(settings.http_timeout)
        self._tls = _tls_context(settings)
        self._server_name = settings.tls_config.server_name if settings.tls_config is not None else ""
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        import aiohttp

        # One session, so that connections are reused.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
            # The time for an answer is that of both tries together.
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, verb: str, request: bytes) -> bytes:
        """Send a JSON request and return the JSON answer; raises ExtenderError if there is none."""
        import aiohttp

        url = f"{self._public_url}/{verb}"
        try:
            async with asyncio.timeout(self._seconds):
                try:
                    return await self._post(verb, request)
                except aiohttp.ClientConnectorError:
                    raise
                except aiohttp.ClientConnectionError:
                    # The server may just have closed a connection that was kept open.
                    return await self._post(verb, request)
        except TimeoutError as error:
            reason = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {reason}') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ExtenderError(f'Post "{url}": {_format_error(error)}') from error

    async def _post(self, verb: str, question: bytes) -> bytes:
        assert self._session is not None
        url = f"{self._public_url}/{verb}"
        request = self._session.post(
            # Pods and credentials must not be sent to another address.
            f"{self._url}/{verb}",
            data=question,
            server_hostname=self._server_name or None,
            allow_redirects=False,
        )
        async with request as response:
            if response.status != 200:
                raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
            largest = max(MAX_RESPONSE_BYTES, 2 * len(question))
            answer = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                answer += chunk
                if len(answer) > largest:
                    raise ExtenderError(f'Post "{url}": the answer is longer than {largest} bytes')
            return bytes(answer)


def _format_error(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionError):
        return f"dial tcp {error.host}:{error.port}: connect: {os.strerror(error.os_error.errno or 0).lower()}"
    return str(error) or type(error).__name__


def _tls_context(settings: ExtenderSettings) -> ssl.SSLContext | None:
    """Return the TLS context for the settings, None if they need only a verified connection.

    As in client-go: a given certificate authority is the only one trusted; enableHTTPS without one verifies nothing.
    """
    tls = settings.tls_config or ExtenderTLSConfig()
    try:
        authority = _read_pem(tls.ca_data, tls.ca_file)
        certificate, key = _read_pem(tls.cert_data, tls.cert_file), _read_pem(tls.key_data, tls.key_file)
        insecure = tls.insecure or (settings.enable_https and not authority)
        if authority and insecure:
            raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
        if not (authority or insecure or (certificate and key)):
            return None
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate and key:
            with tempfile.NamedTemporaryFile() as pem:  # the ssl module takes it from a file alone
                pem.write(certificate + b"\n" + key)
                pem.flush()
                context.load_cert_chain(pem.name)
    except (OSError, ValueError) as error:
        message = f"couldn't build extenders: tlsConfig of {settings.address}: {format_os_error(error)}"
        raise ConfigError(message, path="extenders") from error
    return context


def _read_pem(data: str, file: str) -> bytes:
    """Return PEM text, from the configuration itself or from a file; empty if neither is given."""
    if data:
        return base64.b64decode(data)
    return Path(file).read_bytes() if file else b""
