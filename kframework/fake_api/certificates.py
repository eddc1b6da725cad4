"""A certificate for a server that lives as long as its process, signed by an authority that is thrown away."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kframework.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: What a cluster's API is called by those within it.
_WITHIN = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "::1")

#: How long they hold: nobody keeps a fake API for longer.
_DAYS = 365


class Issued(NamedTuple):
    """What a server shows, and by which certificate (PEM) of an authority its clients know it."""

    context: ssl.SSLContext
    authority: bytes


def issue(hosts: Iterable[str]) -> Issued:
    """Make a certificate for a server by these names and addresses; ConfigError without the package `cryptography`."""
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509 import BasicConstraints, SubjectAlternativeName
    except ImportError as error:
        why = "TLS takes the package cryptography: pip install 'kframework-sdk[tls]'"
        raise ConfigError(why) from error
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root = (
        _certificate("kframework CA", "kframework CA", root_key.public_key())
        .add_extension(BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    names = SubjectAlternativeName([_name(host) for host in dict.fromkeys((*_WITHIN, *hosts))])
    shown = (
        _certificate("kframework CA", "kube-apiserver", key.public_key())
        .add_extension(BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(_context(shown.public_bytes(pem) + secret), root.public_bytes(pem))


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


def _name(host: str) -> x509.GeneralName:
    from cryptography.x509 import DNSName, IPAddress

    try:
        return IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return DNSName(host)


def _context(chain: bytes) -> ssl.SSLContext:
    """Load a certificate and its key, which the ssl module reads from a file only: one that nobody else can read."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile(prefix="kframework-", suffix=".pem") as file:
        file.write(chain)
        file.flush()
        context.load_cert_chain(Path(file.name))
    return context
