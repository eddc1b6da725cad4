"""What a login comes to: which server, what we show it, whom we trust, until tokens and certificates expire."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64encode, standard_b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.request import getproxies, proxy_bypass

from kframework.client.kubeconfig import Entry
from kframework.client.loopback import PLAIN_HTTP, host_of, is_loopback, keeps_secrets, names_a_user
from kframework.errors import ConfigError

if TYPE_CHECKING:
    import aiohttp

#: Where a pod finds the token of its account and the authority of its cluster.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: How many connections there may be at once: one per kind that is watched, and one per request under way.
CONNECTIONS = 256

#: The shortest time between two logins, in seconds.
SHORTEST_PERIOD = 10.0

#: How long logging in may take, which for a plugin may mean to ask somebody else, in seconds.
LOGIN_TIMEOUT = 60.0

_REASON = 300  # characters of a reason that a message shows

#: Makes a folder for what may not stay.
MakeFolder = Callable[[], Path]


class Configuration:
    """What is known of a server and of us; the names are those by which kubernetes-asyncio fills it in."""

    def __init__(self) -> None:
        self.host: str | None = None
        self.api_key: dict[str, str] = {}
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl: bool = True
        self.tls_server_name: str | None = None
        self.proxy: str | None = None


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


class Login:
    """Who we are to which server, as a source of credentials says it.

    `authorization` is what a request says of it, None if the certificate says it all; `due` is when to renew that, on
    the loop's clock.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._configuration = Configuration()
        self._certificate = b""
        self._tls: ssl.SSLContext | None = None
        self.authorization: str | None = None
        self.due: float = 0.0

    async def renew(self) -> bool:
        """Log in, again if need be, and return whether that takes new connections; raises ConfigError."""
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
                try:
                    self._tls = tls(configuration)
                except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                    why = f"its certificates cannot be used: {error}"
                    raise ConfigError(why, file=self._source.name) from None
            return valid, certificate
        except ConfigError:
            raise
        except TimeoutError:
            reason = f"logging in took longer than {LOGIN_TIMEOUT:g} s"
        except Exception as error:  # whatever a malformed file or a plugin brings about in the library
            reason = _reason(error)
        raise ConfigError(f"cannot log in: {reason}", file=self._source.name)

    @property
    def host(self) -> str:
        """The URL of the server, to which paths are appended."""
        return str(self._configuration.host).rstrip("/")

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must have, None for that of the host."""
        return self._configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        """The proxy to the server: the kubeconfig's, or the environment's, which is asked once and not per request."""
        return self._configuration.proxy or _proxy_of(self.host)

    def connector(self) -> aiohttp.BaseConnector:
        """Make a pool of connections with the TLS that the credentials ask for."""
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


def of_user(configuration: Configuration, cluster: Entry, user: Entry, folder: MakeFolder) -> None:
    """Fill in what a kubeconfig says of a user who needs nobody else to log in; OSError for files that are not there.

    Certificates that stand in the kubeconfig itself are put into folders that are made for them alone.
    """
    configuration.host = cluster.text("server").rstrip("/")
    configuration.verify_ssl = not cluster.values.get("insecure-skip-tls-verify")
    configuration.tls_server_name = cluster.text("tls-server-name") or None
    configuration.proxy = cluster.text("proxy-url") or None
    if authorization := _authorization(user):
        configuration.api_key["BearerToken"] = authorization
    if configuration.host.startswith("https"):
        configuration.ssl_ca_cert = _file(cluster, "certificate-authority", folder)
        configuration.cert_file = _file(user, "client-certificate", folder)
        configuration.key_file = _file(user, "client-key", folder)


def of_service_account(configuration: Configuration, environ: Mapping[str, str]) -> None:
    """Fill in what a pod knows of the cluster around it; OSError for files that are not there."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.api_key["BearerToken"] = f"Bearer {(SERVICE_ACCOUNT / 'token').read_text()}"
    configuration.ssl_ca_cert = str(_there(SERVICE_ACCOUNT / "ca.crt"))


def tls(configuration: Configuration) -> ssl.SSLContext | None:
    """Return what to show to the server and whom to trust, None for plain HTTP; OSError or ValueError if it is bad."""
    if not (configuration.host or "").startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _authorization(user: Entry) -> str:
    token, file = user.text("token"), user.path("tokenFile")
    if not token and file is not None:
        token = file.read_text()
    if token:
        return f"Bearer {token}"
    if "username" in user.values and "password" in user.values:
        named = f"{user.text('username')}:{user.text('password')}"
        return f"Basic {b64encode(named.encode()).decode()}"
    return ""


def _file(entry: Entry, name: str, folder: MakeFolder) -> str | None:
    """Return the file that is named, or one with the data that stand in its place."""
    if data := entry.text(f"{name}-data"):
        file = folder() / name
        file.write_bytes(standard_b64decode(data))
        return str(file)
    named = entry.path(name)
    return None if named is None else str(_there(named))


def _there(file: Path) -> Path:
    file.open("rb").close()
    return file


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
        return str(error).partition("/{")[0].partition("\n")[0].strip()[:_REASON]
    return f"something in it has another form than expected ({type(error).__name__})"
