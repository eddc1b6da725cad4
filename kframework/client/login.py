"""Credentials in use: the server, our certificate or token, the trusted CAs, and when to renew them."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode, standard_b64decode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol
from urllib.request import getproxies, proxy_bypass

from kframework.client.kubeconfig import KubeconfigEntry
from kframework.client.loopback import PLAIN_HTTP, has_credentials, host_of, is_confidential, is_loopback
from kframework.config.models import without_password
from kframework.errors import ConfigError, KFrameworkError, format_os_error

if TYPE_CHECKING:
    import aiohttp

#: Where Kubernetes mounts the token of a pod's service account and the CA of its cluster.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

#: Most concurrent connections: one per watched kind, and one per request in flight.
MAX_CONNECTIONS = 256

#: Least seconds between two logins.
MIN_LOGIN_INTERVAL = 10.0

#: How long a login may take, in seconds; an exec plugin may call other services.
LOGIN_TIMEOUT = 60.0

_MAX_REASON_LENGTH = 300

FolderFactory = Callable[[], Path]


class ClientConfiguration:
    """Connection settings of a server and a user; the attribute names are kubernetes-asyncio's, which fills them in."""

    def __init__(self) -> None:
        self.host: str | None = None
        self.api_key: dict[str, str] = {}
        self.ssl_ca_cert: str | None = None
        self.cert_file: str | None = None
        self.key_file: str | None = None
        self.verify_ssl: bool = True
        self.tls_server_name: str | None = None
        self.proxy: str | None = None


class LoginError(KFrameworkError):
    """Raised when a login fails, with the reason in one line."""


class CredentialSource(Protocol):
    """A source of credentials: `name` is its file, `identity` says who logs in where; both are for messages."""

    name: str
    identity: str

    async def load(self, configuration: ClientConfiguration, folder: FolderFactory) -> float:
        """Fill in the configuration and return after how many seconds to repeat that; may raise any exception.

        Data that TLS can only read from files go into folders created by `folder`, which are deleted afterwards.
        """

    def server_error(self, why: str) -> ConfigError:
        return ConfigError(why, file=self.name)


class Login:
    """The current credentials for a server.

    `authorization` is the header's value, None if the client certificate is enough; `due` is when to renew it, on the
    loop's clock.
    """

    def __init__(self, source: CredentialSource) -> None:
        self._source = source
        self._configuration = ClientConfiguration()
        self._certificate = b""
        self._tls: ssl.SSLContext | None = None
        self.authorization: str | None = None
        self.due: float = 0.0

    async def renew(self) -> bool:
        """Log in and return whether new connections are needed; raises ConfigError."""
        loop = asyncio.get_running_loop()
        self.due = loop.time() + MIN_LOGIN_INTERVAL  # a failed login may be retried then
        configuration = ClientConfiguration()
        with ExitStack() as folders:
            try:
                async with asyncio.timeout(LOGIN_TIMEOUT):
                    valid_for = await self._source.load(
                        configuration, lambda: Path(folders.enter_context(TemporaryDirectory()))
                    )
                certificate = await asyncio.to_thread(_read_certificate, configuration)
            except ConfigError:
                raise
            except TimeoutError:
                why = f"logging in took longer than {LOGIN_TIMEOUT:g} s"
                raise ConfigError(f"cannot log in: {why}", file=self._source.name) from None
            except Exception as error:  # a malformed file or a plugin can raise anything in the library
                raise ConfigError(f"cannot log in: {_describe_error(error)}", file=self._source.name) from error
            is_new = self._tls is None or certificate != self._certificate
            if is_new:
                try:
                    self._tls = await asyncio.to_thread(create_tls_context, configuration)
                except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                    why = format_os_error(error)
                    raise ConfigError(f"cannot use its certificates: {why}", file=self._source.name) from None
        self.due = loop.time() + valid_for
        self._configuration, previous, self._certificate = configuration, self._certificate, certificate
        key = configuration.api_key.get("BearerToken")
        if (key or has_credentials(self.host)) and not is_confidential(self.host, self.proxy):
            raise self._source.server_error(f"{PLAIN_HTTP}, or remove the user's credentials")
        self.authorization = str(key).strip() if key else None
        return certificate != previous

    @property
    def host(self) -> str:
        """The URL of the server, without a trailing slash."""
        return str(self._configuration.host).rstrip("/")

    @property
    def description(self) -> str:
        """The server, and who logs in there."""
        url = without_password(self.host)
        return f"{url} ({self._source.identity})" if self._source.identity else url

    @property
    def server_name(self) -> str | None:
        """The name to expect in the server's certificate, None for the host's."""
        return self._configuration.tls_server_name or None

    @property
    def proxy(self) -> str | None:
        """The proxy to the server: the kubeconfig's, or the environment's, looked up once instead of per request."""
        return self._configuration.proxy or _environment_proxy(self.host)

    def connector(self) -> aiohttp.BaseConnector:
        import aiohttp

        return aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=self._tls or True)


def configure_user(
    configuration: ClientConfiguration, cluster: KubeconfigEntry, user: KubeconfigEntry, folder: FolderFactory
) -> None:
    """Fill in a kubeconfig's user who needs no plugin; OSError for missing files.

    Certificates inside the kubeconfig are written to folders created by `folder`.
    """
    configuration.host = cluster.text("server").rstrip("/")
    configuration.verify_ssl = not cluster.values.get("insecure-skip-tls-verify")
    configuration.tls_server_name = cluster.text("tls-server-name") or None
    configuration.proxy = cluster.text("proxy-url") or None
    if authorization := _authorization_header(user):
        configuration.api_key["BearerToken"] = authorization
    if configuration.host.startswith("https"):
        configuration.ssl_ca_cert = _credential_file(cluster, "certificate-authority", folder)
        configuration.cert_file = _credential_file(user, "client-certificate", folder)
        configuration.key_file = _credential_file(user, "client-key", folder)


def configure_service_account(configuration: ClientConfiguration, environ: Mapping[str, str]) -> None:
    """Fill in the server and service account of the pod this runs in; OSError for missing files."""
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    configuration.host = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    configuration.api_key["BearerToken"] = f"Bearer {(SERVICE_ACCOUNT / 'token').read_text()}"
    configuration.ssl_ca_cert = str(_require_readable(SERVICE_ACCOUNT / "ca.crt"))


def create_tls_context(configuration: ClientConfiguration) -> ssl.SSLContext | None:
    """Create the TLS context, None for plain HTTP; OSError or ValueError for bad certificates."""
    if not (configuration.host or "").startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _authorization_header(user: KubeconfigEntry) -> str:
    token, file = user.text("token"), user.path("tokenFile")
    if not token and file is not None:
        token = file.read_text()
    if token:
        return f"Bearer {token}"
    if "username" in user.values and "password" in user.values:
        credentials = f"{user.text('username')}:{user.text('password')}"
        return f"Basic {b64encode(credentials.encode()).decode()}"
    return ""


def _credential_file(entry: KubeconfigEntry, name: str, folder: FolderFactory) -> str | None:
    if data := entry.text(f"{name}-data"):
        file = folder() / name
        file.write_bytes(standard_b64decode(data))
        return str(file)
    path = entry.path(name)
    return None if path is None else str(_require_readable(path))


def _require_readable(file: Path) -> Path:
    file.open("rb").close()
    return file


def _read_certificate(configuration: ClientConfiguration) -> bytes:
    """Return our certificate and its key, empty without one."""
    files = filter(None, (configuration.cert_file, configuration.key_file))
    return b"".join(Path(file).read_bytes() for file in files)


def _environment_proxy(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    local = is_loopback(host_of(url))  # as in Go, no proxy for this machine, whatever the environment says
    return None if local or proxy_bypass(host) else getproxies().get(scheme)


def _describe_error(error: Exception) -> str:
    """Describe an error without the parts of the file that the library quotes, which hold secrets."""
    if isinstance(error, LoginError):
        return str(error)
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, OSError):
        return str(error).partition("/{")[0].partition("\n")[0].strip()[:_MAX_REASON_LENGTH]
    return "unexpected format"
