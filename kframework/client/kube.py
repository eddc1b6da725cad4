"""The way to a real cluster: which one, who we are to it, and how that stays true while tokens and certificates expire.

The only module that knows kubernetes-asyncio, whose import takes as long as all else together, and 60 MB: it happens
only for users who log in by a plugin or a provider.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from ssl import SSLContext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.request import getproxies, proxy_bypass

import msgspec

from kframework.client.kubeconfig import DEFAULT_FILE, KubeConfig, read_kubeconfig
from kframework.client.login import SERVICE_ACCOUNT, Configuration, MakeFolder, of_service_account, of_user, tls
from kframework.client.loopback import PLAIN_HTTP, host_of, is_loopback, keeps_secrets, names_a_user
from kframework.client.transport import Credentials
from kframework.errors import ConfigError
from kframework.objects.problem import Problem

if TYPE_CHECKING:
    import aiohttp

    from kframework.client.kube_transport import KubeTransport

#: How many connections there may be at once: one per kind that is watched, and one per request under way.
CONNECTIONS = 256

#: Files with tokens are read again after so many seconds, as in client-go.
TOKEN_PERIOD = 60.0

#: How long before its end a plugin's token is renewed, as in kubernetes-asyncio, and the shortest time between two
#: logins, in seconds.
MARGIN = 300.0
SHORTEST_PERIOD = 10.0

#: How long logging in may take, which for a plugin may mean to ask somebody else, in seconds.
LOGIN_TIMEOUT = 60.0

_REASON = 300  # characters of a reason that a message shows


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Which cluster: a kubeconfig file, else KUBECONFIG, else the cluster around this pod, else ~/.kube/config.

    `context` None means the current one; a context that is named is looked for in files only. `server` is a URL that
    goes before the one found there, or stands for itself where there is no file: nobody logs in then.
    """

    kubeconfig: str | None = None
    context: str | None = None
    server: str | None = None
    user_agent: str | None = None


async def connect(settings: Connection) -> KubeTransport:
    """Find the cluster and log in, without asking it anything yet; raises ConfigError."""
    from kframework._version import __version__
    from kframework.client.kube_transport import KubeTransport

    login = Login(_source(settings, os.environ))
    await login.renew()
    return KubeTransport(login, settings.user_agent or f"kframework/{__version__}")


def _source(settings: Connection, environ: Mapping[str, str]) -> Source:
    if settings.server is not None:
        files = settings.kubeconfig or environ.get("KUBECONFIG")
        credentials = _Files(read_kubeconfig(files, settings.context)) if files else None
        return _Address(_checked(settings.server), credentials)
    if settings.kubeconfig:
        return _Files(read_kubeconfig(settings.kubeconfig, settings.context))
    if environ.get("KUBECONFIG"):
        return _Files(read_kubeconfig(environ["KUBECONFIG"], settings.context))
    if environ.get("KUBERNETES_SERVICE_HOST") and not settings.context:
        return _ServiceAccount()
    return _Files(read_kubeconfig(DEFAULT_FILE, settings.context))


class Loader(Protocol):
    """kubernetes-asyncio's reader of kubeconfigs."""

    async def load_and_set(self, client_configuration: Configuration) -> None:
        """Fill in the configuration with what holds now."""
        ...


def _checked(server: str) -> str:
    if not server.startswith(("http://", "https://")):
        raise ConfigError(f"the API server's address {server!r} is no URL; write it as https://host:6443")
    return server


class Source(Protocol):
    """Where credentials come from; `name` is for messages."""

    name: str

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        """Fill in the configuration and return after how many seconds to do so again; raises whatever it likes.

        What TLS can only read from files may be put into folders that are made for it, and gone afterwards.
        """
        ...

    def wrong_server(self, why: str) -> ConfigError:
        """Return the error that says where the server's address stands, and what is wrong with it."""
        return ConfigError(why, file=self.name)


class _ServiceAccount(Source):
    """The account of the pod that this process runs in."""

    name = str(SERVICE_ACCOUNT)

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        of_service_account(configuration, os.environ)
        return TOKEN_PERIOD


class _Address(Source):
    """A server by its URL, with somebody's credentials or with none."""

    def __init__(self, server: str, credentials: Source | None) -> None:
        self.name = server if credentials is None else credentials.name
        self._server = server
        self._credentials = credentials

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        valid = float("inf") if self._credentials is None else await self._credentials.load(configuration, folder)
        configuration.host = self._server
        return valid

    def wrong_server(self, why: str) -> ConfigError:
        return ConfigError(why, path="--master")


class _Files(Source):
    """A user of a kubeconfig."""

    def __init__(self, file: KubeConfig) -> None:
        self.name = file.paths
        self._file = file
        self._loader: Loader | None = None

    async def load(self, configuration: Configuration, folder: MakeFolder) -> float:
        if {"exec", "auth-provider"} & self._file.user.values.keys():
            return await self._logged_in(configuration)
        of_user(configuration, self._file.cluster, self._file.user, folder)
        return TOKEN_PERIOD if "tokenFile" in self._file.user.values else float("inf")

    async def _logged_in(self, configuration: Configuration) -> float:
        """Ask a plugin or a provider who we are."""
        from kubernetes_asyncio.config import ConfigException, load_kube_config

        # It logs what it raises as well, quoting the file with its secrets.
        logging.getLogger("kubernetes_asyncio.config.kube_config").disabled = True
        try:
            if self._loader is None:
                self._loader = await load_kube_config(
                    self._file.paths, self._file.context, client_configuration=configuration, persist_config=False
                )
            else:
                # What a plugin said last time is not asked for again before it expires, not even when it was refused.
                vars(self._loader).pop("exec_plugin_expiry", None)
                await self._loader.load_and_set(configuration)
        except ConfigException as error:
            raise OSError(str(error)) from error
        return self._valid(self._loader)

    def wrong_server(self, why: str) -> ConfigError:
        return self._file.server.error(Problem((), why))

    def _valid(self, loader: Loader) -> float:
        if "exec" not in self._file.user.values:
            return TOKEN_PERIOD
        expiry: datetime | None = getattr(loader, "exec_plugin_expiry", None)
        if expiry is None:
            return float("inf")
        return max((expiry - datetime.now(UTC)).total_seconds() - MARGIN, SHORTEST_PERIOD)


class Login(Credentials):
    """Who we are to which server, as a source of credentials says it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._configuration = Configuration()
        self._certificate = b""
        self._tls: SSLContext | None = None
        self.authorization: str | None = None
        self.due: float = 0.0

    async def renew(self) -> bool:
        loop = asyncio.get_running_loop()
        self.due = loop.time() + SHORTEST_PERIOD  # if it fails, the next one may try again then
        # In a thread with a loop of its own, as files are read and written on the way.
        valid, certificate = await asyncio.to_thread(self._load_in_thread, self._configuration)
        self.due = loop.time() + valid
        key = self._configuration.api_key.get("BearerToken")
        if (key or names_a_user(self.host)) and not keeps_secrets(self.host, self.proxy):
            raise self._source.wrong_server(f"{PLAIN_HTTP}, or take away the user's credentials")
        self.authorization = str(key).strip() if key else None
        known, self._certificate = self._certificate, certificate
        return certificate != known

    def _load_in_thread(self, configuration: Configuration) -> tuple[float, bytes]:
        with ExitStack() as folders, asyncio.Runner(loop_factory=_LoginLoop) as runner:
            return runner.run(self._load(configuration, lambda: Path(folders.enter_context(TemporaryDirectory()))))

    async def _load(self, configuration: Configuration, folder: MakeFolder) -> tuple[float, bytes]:
        loop = cast("_LoginLoop", asyncio.get_running_loop())
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT), loop.plugins_ended():
                valid = await self._source.load(configuration, folder)
            certificate = _certificate(configuration)
            if self._tls is None or certificate != self._certificate:
                self._tls = self._made_tls(configuration)
            return valid, certificate
        except ConfigError:
            raise
        except TimeoutError:
            reason = f"logging in took longer than {LOGIN_TIMEOUT:g} s"
        except Exception as error:  # whatever a malformed file or a plugin brings about in the library
            reason = _reason(error)
        raise ConfigError(f"cannot log in: {reason}", file=self._source.name)

    def _made_tls(self, configuration: Configuration) -> SSLContext | None:
        try:
            return tls(configuration)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigError(f"its certificates cannot be used: {error}", file=self._source.name) from None

    @property
    def host(self) -> str:
        return str(self._configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        return self._configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        """The proxy to the server: the kubeconfig's, or the environment's, which is asked once and not per request."""
        return self._configuration.proxy or _proxy_of(self.host)

    def connector(self) -> aiohttp.BaseConnector:
        import aiohttp

        return aiohttp.TCPConnector(limit=CONNECTIONS, ssl=self._tls or True)


class _LoginLoop(asyncio.SelectorEventLoop):
    """A loop that knows the plugins it runs, of which the library tells nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._plugins: list[asyncio.SubprocessTransport] = []

    @asynccontextmanager
    async def plugins_ended(self) -> AsyncIterator[None]:
        """Leave no plugin behind: one that hangs is killed."""
        try:
            yield
        finally:
            for plugin in self._plugins:
                plugin.close()
                while plugin.get_returncode() is None:  # noqa: ASYNC110  # a transport has no event for its end
                    await asyncio.sleep(0.001)

    async def subprocess_exec(self, *args: Any, **settings: Any) -> tuple[Any, Any]:
        made = await super().subprocess_exec(*args, **settings)
        self._plugins.append(made[0])
        return made


def _certificate(configuration: Configuration) -> bytes:
    """Return the certificate that we show and its key, empty if there is none."""
    files = filter(None, (configuration.cert_file, configuration.key_file))
    return b"".join(Path(file).read_bytes() for file in files)


def _proxy_of(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    here = is_loopback(host_of(url))  # Go asks no proxy for this machine either, whatever the environment says
    return None if here or proxy_bypass(host) else getproxies().get(scheme)


def _reason(error: Exception) -> str:
    """Say what went wrong without the parts of the file that the library quotes, which hold secrets."""
    if isinstance(error, FileNotFoundError):
        remedy = "" if os.sep in str(error.filename) else "; install this plugin, or put it on the PATH"
        return f"there is no {error.filename}{remedy}"
    if isinstance(error, OSError):
        line = str(error).partition("/{")[0].partition("\n")[0].strip()
        return line[:_REASON]
    return f"something in it has another form than expected ({type(error).__name__})"
