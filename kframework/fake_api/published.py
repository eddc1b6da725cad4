"""The fake API server where kubectl finds it: over HTTP or HTTPS, with a kubeconfig that leads there.

Its certificate lives as long as the process, signed by an authority that is thrown away.
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
from kframework.fake_api.local import LocalCluster
from kframework.fake_api.server import ApiServer
from kframework.fake_api.state_file import StateFile
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects.manifest import Manifest
from kframework.process.signals import signals

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: What a cluster's API is called by those within it.
_WITHIN = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "::1")

#: How long they hold: nobody keeps a fake API for longer.
_DAYS = 365


def issue(hosts: Iterable[str]) -> tuple[ssl.SSLContext, bytes]:
    """Make a certificate for a server of these names and addresses, and the one (PEM) by which its clients know it.

    ConfigError without the package `cryptography`.
    """
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import BasicConstraints, DNSName, GeneralName, IPAddress, SubjectAlternativeName
    except ImportError as error:
        why = "TLS takes the package cryptography: pip install 'kframework-sdk[tls]'"
        raise ConfigError(why) from error
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = (
        _certificate("kframework CA", "kframework CA", root_key.public_key())
        .add_extension(BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    names: list[GeneralName] = []
    for host in dict.fromkeys((*_WITHIN, *hosts)):
        try:
            names.append(IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(DNSName(host))
    shown = (
        _certificate("kframework CA", "kube-apiserver", key.public_key())
        .add_extension(BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(SubjectAlternativeName(names), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The ssl module reads a certificate and its key from a file only: one that nobody else can read.
    with tempfile.NamedTemporaryFile(prefix="kframework-", suffix=".pem") as file:
        file.write(shown.public_bytes(pem) + secret)
        file.flush()
        context.load_cert_chain(Path(file.name))
    return context, root.public_bytes(pem)


def _certificate(issuer: str, subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(named(issuer))
        .subject_name(named(subject))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))  # clients whose clock is a little behind
        .not_valid_after(now + timedelta(days=_DAYS))
    )


#: What cluster and context are called in the kubeconfigs written here.
NAME = "kframework-fake-api"

#: Addresses that mean every interface, and one at which this machine reaches itself.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Where to serve, 0 being any free port, and the kubeconfig to write: None for one that goes with the server.

    With `tls` it shows a certificate which its kubeconfig vouches for, and so it does where people have to log in, as
    kubectl sends tokens to nobody else. `tokens` says who may ask by which token beside the administrator of the
    kubeconfig; None makes everybody one, unless `authorize` makes something else decide what they may do.
    """

    bind_address: str = "127.0.0.1"
    port: int = 0
    kubeconfig: str | None = None
    tls: bool = False
    tokens: Mapping[str, User] | None = None
    authorize: Callable[[MemoryCluster], Authorizer] = AlwaysAllow


@asynccontextmanager
async def published(server: ApiServer, publication: Publication) -> AsyncIterator[Path]:
    """Serve meanwhile and yield the kubeconfig; ConfigError if either cannot be."""
    from kframework.fake_api.web import serve

    host = publication.bind_address
    reachable = _EVERYWHERE.get(host, host)
    is_open = publication.tokens is None and publication.authorize is AlwaysAllow
    tls, authority = issue([host, reachable]) if publication.tls or not is_open else (None, b"")
    token = secrets.token_urlsafe() if tls else ""  # without one kubectl asks for a name where there is TLS
    if tls:
        server.cluster.certificate_authority = authority.decode()
    if not is_open:
        server.authenticator = Authenticator(server.accounts, {token: ADMIN, **(publication.tokens or {})})
    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(serve(server, host, publication.port, tls))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            remedy = "choose another --bind-address or --port, or no --port for any free one"
            raise ConfigError(f"cannot listen on {host}:{publication.port}: {why}; {remedy}") from error
        address = f"[{reachable}]" if ":" in reachable else reachable
        kubeconfig = _kubeconfig(f"{'https' if tls else 'http'}://{address}:{port}", authority, token)
        if publication.kubeconfig is None:
            yield stack.enter_context(_passing(kubeconfig))
        else:
            yield _lasting(Path(publication.kubeconfig), kubeconfig)


@contextmanager
def _passing(kubeconfig: str) -> Iterator[Path]:
    """Write a kubeconfig that is removed at the end."""
    handle, name = tempfile.mkstemp(prefix="kframework-", suffix=".yaml")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(kubeconfig)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _lasting(file: Path, kubeconfig: str) -> Path:
    """Write a kubeconfig to a file which may be there only if it was written here too; its owner alone reads it."""
    if file.exists() and not _is_ours(file):
        raise ConfigError("exists, and is not the kubeconfig of a fake API; name another file to write", file=str(file))
    try:
        with open(file, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as written:
            written.write(kubeconfig)
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from error
    return file.absolute()


def _is_ours(file: Path) -> bool:
    try:
        known = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    contexts = known.get("contexts") if isinstance(known, dict) else None
    return isinstance(contexts, list) and [each.get("name") for each in contexts if isinstance(each, dict)] == [NAME]


def _kubeconfig(url: str, authority: bytes, token: str) -> str:
    cluster = {"server": url}
    if authority:
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "users": [{"name": NAME, "user": {"token": token} if token else {}}],
        "current-context": NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


@asynccontextmanager
async def running(
    manifest: Manifest,
    clock: Clock,
    publication: Publication,
    say_where: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> AsyncIterator[LocalCluster]:
    """Keep a cluster of these files going meanwhile, and say where its kubeconfig is; ConfigError if it cannot be."""
    local = LocalCluster(clock, manifest, publication.authorize, controllers, state)
    async with published(local.server, publication) as kubeconfig, anyio.create_task_group() as tasks:
        tasks.start_soon(local.run)
        say_where(kubeconfig)
        yield local
        tasks.cancel_scope.cancel()


async def serve(
    manifest: Manifest,
    publication: Publication,
    say_where: Callable[[Path], None],
    controllers: Sequence[str] = ("*",),
    state: StateFile | None = None,
) -> None:
    """Keep a cluster going until SIGTERM or SIGINT."""
    over = asyncio.Event()
    with signals(over.set):
        async with running(manifest, SystemClock(), publication, say_where, controllers, state):
            await over.wait()
