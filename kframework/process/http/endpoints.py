"""The HTTP endpoints of a scheduler: its health and its configuration.

Paths and words are kube-scheduler's. The caller passes the list of routes, so that more can be added.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kframework.client.loopback import MISDIRECTED, is_host_allowed, is_loopback
from kframework.client.transport import Response
from kframework.config.configuration import Configuration
from kframework.config.models import without_password
from kframework.config.show import effective, effective_options
from kframework.core.runtime.registry import load_in_tree_args
from kframework.errors import ConfigError, format_os_error
from kframework.process.delegation import Delegation, delegate_access
from kframework.process.http.connections import Connections, listen_at
from kframework.process.http.health import PING, Check, CheckObserver, check_health, health_of, ignore_check, plain

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Handler, Middleware


_log = logging.getLogger(__name__)

#: The time limit for answers in progress at shutdown, in seconds.
SHUTDOWN_TIMEOUT = 5.0

#: The maximum size of a request body, in bytes.
MAX_BODY_BYTES = 1 << 16

#: The maximum number of concurrent requests; loading the page takes a handful.
MAX_REQUESTS = 64

#: The health endpoints, which a kubelet must reach even under load.
HEALTH_ENDPOINTS = ("healthz", "livez", "readyz")

_REDACTED = "--- REDACTED ---"


@dataclass(frozen=True, kw_only=True)
class Listener:
    """The address to listen on, the certificate, and the delegation of authorization.

    Without a certificate it is plain HTTP, without `delegation` everyone may read. Port 0 is any free one.
    """

    bind_address: str = "127.0.0.1"
    port: int = 10259
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    delegation: Delegation | None = None

    def check(self) -> None:
        """Check that the certificate is usable and the address free; ConfigError if not."""
        if self.tls_cert_file or self.tls_private_key_file:
            Certificate(self.tls_cert_file, self.tls_private_key_file)
        with socket.socket(socket.AF_INET6 if ":" in self.bind_address else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.bind_address, self.port))
            except OSError as error:
                raise self.listen_error(error) from error

    def listen_error(self, error: OSError) -> ConfigError:
        """Return the error for an address that cannot be used."""
        why = str(error.strerror or error).rpartition(": ")[2]  # asyncio repeats the address before the colon
        remedy = "choose another --bind-address or --secure-port, or --secure-port 0 for no endpoints"
        return ConfigError(f"cannot listen on {self.bind_address}:{self.port}: {why.lower()}; {remedy}")


def scheduler_routes(
    configuration: Configuration,
    *,
    synced: Callable[[], bool],
    starting: Callable[[], str | None],
    stopping: Callable[[], bool],
    election: Callable[[], str | None] | None,
    authorization: Callable[[], str | None],
    on_check: CheckObserver = ignore_check,
) -> list[web.RouteDef]:
    """Return the routes that every scheduler has.

    `starting` returns the plugin that is being started, `election` the problem of the lease; it is None without one.
    `authorization` returns the missing permissions.
    """
    plugins = Check("plugins-started", starting, withheld=False)
    elections = [Check("leaderElection", election)] if election is not None else []
    rights = Check("authorization", authorization, withheld=False)
    shutdown = Check("shutdown", lambda: "process is shutting down" if stopping() else None)
    handlers = Check("sched-handler-sync", lambda: None if synced() else "handlers are not fully synchronized")
    return [
        *health_routes("healthz", elections or [PING], on_check),
        *health_routes("livez", [PING], on_check),
        *health_routes("readyz", [*elections, rights, shutdown, plugins, handlers], on_check),
        configz_route(configuration),
    ]


def health_routes(name: str, checks: Sequence[Check], on_check: CheckObserver = ignore_check) -> list[web.RouteDef]:
    """Return the route of all checks, `/<name>`, and that of each, `/<name>/<check>`.

    `on_check` is called for checks of the combined route, as kube-scheduler counts them.
    """
    from aiohttp import web

    async def answer_all(request: web.Request) -> web.Response:
        return _answer(check_health(name, checks, [*request.query.items()], on_check))

    def answer_of(check: Check) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(request: web.Request) -> web.Response:
            return _answer(health_of(check))

        return answer

    return [web.get(f"/{name}", answer_all), *(web.get(f"/{name}/{check.name}", answer_of(check)) for check in checks)]


def _answer(response: Response) -> web.Response:
    from aiohttp import web

    return web.Response(status=response.status, body=response.body, headers=response.headers)


def configz_route(configuration: Configuration) -> web.RouteDef:
    """Return the route `/configz`: the effective configuration in JSON, private keys left out."""
    from aiohttp import web

    scheduler = effective(configuration, load_in_tree_args(configuration))
    documents = {"componentconfig": scheduler, "kframework": effective_options(configuration)}
    shown = _redact({name: document for name, document in documents.items() if document is not None})

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(shown, headers={"X-Content-Type-Options": "nosniff"})

    return web.get("/configz", answer)


def _redact(document: object) -> object:
    """Remove private keys and passwords of extenders, since everyone who reaches the port may read this."""
    if isinstance(document, Mapping):
        return {key: _REDACTED if key == "keyData" else _redact(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_redact(each) for each in document]
    return without_password(document) if isinstance(document, str) else document


@asynccontextmanager
async def serve(routes: Iterable[web.AbstractRouteDef], listener: Listener) -> AsyncIterator[str]:
    """Serve requests while inside, and yield the URL; on exit, answers in progress get 5 s.

    Raises ConfigError if it cannot listen there, or cannot use the certificate.
    """
    from aiohttp import web

    certificate = None
    if listener.tls_cert_file or listener.tls_private_key_file:
        certificate = await asyncio.to_thread(Certificate, listener.tls_cert_file, listener.tls_private_key_file)
    connections = Connections(tls=lambda: certificate.context if certificate is not None else None)
    async with AsyncExitStack() as stack:
        if listener.delegation is None:
            who = _reject_remote_writes()
        elif not listener.tls_cert_file and not is_loopback(listener.bind_address):
            message = "clients would send their tokens over plain HTTP"
            remedy = "use --tls-cert-file and --tls-private-key-file, or a loopback --bind-address"
            raise ConfigError(f"{message}: {remedy}")
        else:
            who = await stack.enter_async_context(delegate_access(listener.delegation))
        middlewares = [_limit_requests(connections, listener.bind_address), who]
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        application.add_routes(routes)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT)
        try:
            serving = listen_at(runner, connections, listener.bind_address, listener.port)
            host, port = await stack.enter_async_context(serving)
        except OSError as error:
            raise listener.listen_error(error) from error
        if certificate is not None:
            stack.callback(asyncio.create_task(certificate.reload_periodically()).cancel)
        yield f"{'https' if certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def _limit_requests(connections: Connections, bind_address: str) -> Middleware:
    """Limit concurrent requests to MAX_REQUESTS, health checks excepted, and reject other hosts in the Host header."""
    from aiohttp import web

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        with connections.in_request(request):
            if connections.in_progress > MAX_REQUESTS and request.path.split("/")[1] not in HEALTH_ENDPOINTS:
                return _answer(plain("too many requests, please try again later\n", 503))
            if not is_host_allowed(bind_address, request.host):
                return _answer(plain(f"{MISDIRECTED}\n", 421))
            return await handler(request)

    return check


def _reject_remote_writes() -> Middleware:
    from aiohttp import web

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD") and not is_loopback(request.remote or ""):
            return _answer(plain(f"{request.method} is allowed from this machine only\n", 403))
        return await handler(request)

    return check


#: The files are looked at so often, in seconds, as in kube-scheduler.
RELOAD_INTERVAL = 60.0


class Certificate:
    """A certificate with its key, for TLS on our side; ConfigError if they are of no use."""

    def __init__(self, certificate: str, key: str) -> None:
        if not certificate or not key:
            raise ConfigError("TLS needs both --tls-cert-file and --tls-private-key-file")
        self._certificate, self._key = certificate, key
        self._seen = self._read()
        #: The TLS context of the next connection.
        self.context: ssl.SSLContext = self._load()

    async def reload_periodically(self) -> None:
        while True:
            await asyncio.sleep(RELOAD_INTERVAL)
            await asyncio.to_thread(self.renew)

    def renew(self) -> None:
        """Load changed certificate files; if they are invalid, log it once and keep the current certificate."""
        found = self._read()
        if found == self._seen:
            return
        self._seen = found
        try:
            self.context = self._load()
        except ConfigError as error:
            _log.warning("%s; keeping the previous certificate", error)
        else:
            _log.info("reloaded the certificate %s", self._certificate)

    def _read(self) -> list[bytes]:
        """Return the contents of the files; empty for one that cannot be read."""
        found = []
        for file in (self._certificate, self._key):
            try:
                found.append(Path(file).read_bytes())
            except OSError:
                found.append(b"")
        return found

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            files = f"the certificate {self._certificate} with the key {self._key}"
            raise ConfigError(f"cannot use {files}: {format_os_error(error)}") from error
        return context


def _no_password() -> str:
    """Reject a key with a password, for which ssl would prompt at the terminal."""
    raise ValueError("the key is encrypted; use one without a password")
