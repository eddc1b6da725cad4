"""The fake API server over HTTP or HTTPS, with a kubeconfig for kubectl.

Its certificate is valid while the process runs, signed by an authority whose key is discarded.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import os
import secrets
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec
import yaml

from kframework.client.transport import ADMIN, User
from kframework.clock import Clock, SystemClock
from kframework.errors import ConfigError
from kframework.fake_api.access import AlwaysAllow, Authorizer
from kframework.fake_api.authentication import Authenticator
from kframework.fake_api.local_cluster import LocalCluster
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects.manifest import Manifest
from kframework.objects.plain_data import entries
from kframework.process.signals import handle_signals
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: Names and addresses of an API server inside its cluster.
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "::1")

_AUTHORITY = "kframework CA"
#: Validity of certificates, in days: longer than any fake API runs.
_VALID_DAYS = 365


def issue_certificate(hosts: Iterable[str]) -> tuple[ssl.SSLContext, bytes]:
    """Create a server certificate for these names and addresses, and return it with its CA certificate (PEM).

    ConfigError without the package `cryptography`.
    """
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import BasicConstraints, DNSName, GeneralName, IPAddress, SubjectAlternativeName
    except ImportError as error:
        why = "TLS needs the package cryptography: pip install 'kframework-sdk[tls]'"
        raise ConfigError(why) from error
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = (
        _certificate_builder(_AUTHORITY, root_key.public_key())
        .add_extension(BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    names: list[GeneralName] = []
    for host in dict.fromkeys((*_SERVICE_NAMES, *hosts)):
        try:
            names.append(IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(DNSName(host))
    certificate = (
        _certificate_builder("kube-apiserver", key.public_key())
        .add_extension(BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(SubjectAlternativeName(names), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The ssl module loads certificate and key from files only; this one is readable by its owner only.
    with tempfile.NamedTemporaryFile(prefix="kframework-", suffix=".pem") as file:
        file.write(certificate.public_bytes(pem) + secret)
        file.flush()
        context.load_cert_chain(Path(file.name))
    return context, root.public_bytes(pem)


def _certificate_builder(subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    def common_name(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(common_name(_AUTHORITY))
        .subject_name(common_name(subject))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # tolerates clock skew of clients
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
    )


#: Name of cluster, context and user in the kubeconfig.
CONTEXT_NAME = "kframework-fake-api"

#: Loopback addresses, by the wildcard addresses that include them.
_LOOPBACK_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the server.

    Attributes:
        bind_address: Address to listen on.
        port: Port to listen on, 0 for any free one.
        kubeconfig: File to write; None for a temporary one.
        tls: Whether to serve HTTPS; always if users must log in, because kubectl sends tokens only over TLS.
        tokens: Users by token, besides the administrator of the kubeconfig; None makes every user an administrator.
        authorize: Creates the authorizer; other than AlwaysAllow, users must log in.
        feature_gates: The minor of Kubernetes to serve, and its kinds and fields.
    """

    bind_address: str = "127.0.0.1"
    port: int = 0
    kubeconfig: str | None = None
    tls: bool = False
    tokens: Mapping[str, User] | None = None
    authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow
    feature_gates: FeatureGates = DEFAULT_GATES


@asynccontextmanager
async def publish(server: ApiServer, options: ServerOptions) -> AsyncIterator[Path]:
    """Serve while in the context, and yield the kubeconfig; raises ConfigError."""
    from kframework.fake_api.web import serve

    host = options.bind_address
    reachable = _LOOPBACK_BY_WILDCARD.get(host, host)
    is_open = options.tokens is None and options.authorize is AlwaysAllow
    tls, authority = issue_certificate([host, reachable]) if options.tls or not is_open else (None, b"")
    token = secrets.token_urlsafe() if tls else ""  # with TLS and no token, kubectl asks for a user name
    if tls:
        server.cluster.certificate_authority = authority.decode()
    if not is_open:
        server.authenticator = Authenticator(server.accounts, {token: ADMIN, **(options.tokens or {})})
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(serve(server, host, options.port, tls))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            remedy = "choose another --bind-address or --port, or no --port for any free one"
            raise ConfigError(f"cannot listen on {host}:{options.port}: {why}; {remedy}") from error
        address = f"[{reachable}]" if ":" in reachable else reachable
        kubeconfig = _format_kubeconfig(f"{'https' if tls else 'http'}://{address}:{port}", authority, token)
        if options.kubeconfig is None:
            yield stack.enter_context(_temporary_kubeconfig(kubeconfig))
        else:
            yield _write_kubeconfig(Path(options.kubeconfig), kubeconfig)


@contextmanager
def _temporary_kubeconfig(kubeconfig: str) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="kframework-", suffix=".yaml")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(kubeconfig)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _write_kubeconfig(file: Path, kubeconfig: str) -> Path:
    """Write a kubeconfig, readable by its owner only; overwrites only a fake API's own."""
    if file.exists() and not _is_own_kubeconfig(file):
        raise ConfigError("exists and is not a fake API's kubeconfig; name another file", file=str(file))
    try:
        with open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
            opened.write(kubeconfig)
    except OSError as error:
        raise ConfigError(f"cannot write: {error.strerror}", file=str(file)) from error
    return file.absolute()


def _is_own_kubeconfig(file: Path) -> bool:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return [each.get("name") for each in entries(document, "contexts")] == [CONTEXT_NAME]


def _format_kubeconfig(url: str, authority: bytes, token: str) -> str:
    cluster: Data = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    else:
        cluster["insecure-skip-tls-verify"] = True  # without it, Kubernetes' client for JavaScript refuses plain HTTP
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT_NAME, "cluster": cluster}],
        "contexts": [{"name": CONTEXT_NAME, "context": {"cluster": CONTEXT_NAME, "user": CONTEXT_NAME}}],
        "users": [{"name": CONTEXT_NAME, "user": {"token": token} if token else {}}],
        "current-context": CONTEXT_NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


@asynccontextmanager
async def run_cluster(
    manifest: Manifest,
    clock: Clock,
    options: ServerOptions,
    on_kubeconfig: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> AsyncIterator[LocalCluster]:
    """Run a cluster with these objects while in the context, and report its kubeconfig; raises ConfigError."""
    local = LocalCluster(clock, manifest, options.authorize, controllers, state, options.feature_gates)
    async with publish(local.server, options) as kubeconfig, anyio.create_task_group() as tasks:
        tasks.start_soon(local.run)
        on_kubeconfig(kubeconfig)
        yield local
        tasks.cancel_scope.cancel()


async def serve_until_signal(
    manifest: Manifest,
    options: ServerOptions,
    on_kubeconfig: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> None:
    stop = asyncio.Event()
    with handle_signals(stop.set):
        async with run_cluster(manifest, SystemClock(), options, on_kubeconfig, controllers, state):
            await stop.wait()
