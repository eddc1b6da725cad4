"""A server's certificate is known by the authority that signed it, by the names it was made for."""

from __future__ import annotations

import ssl
import sys

import pytest

from kframework.errors import ConfigError
from kframework.fake_api.http_server import issue_certificate


def shake_hands(context: ssl.SSLContext, authority: bytes, name: str) -> None:
    """Let a client and the server shake hands in memory; ssl.SSLError if the client does not trust it."""
    client = ssl.create_default_context(cadata=authority.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = context.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert theirs.getpeercert()


@pytest.fixture(scope="module")
def issued() -> tuple[ssl.SSLContext, bytes]:
    return issue_certificate(["192.0.2.7", "api.example"])


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc", "192.0.2.7", "api.example"])
def test_certificate_is_trusted_for_its_names(issued: tuple[ssl.SSLContext, bytes], name: str) -> None:
    shake_hands(*issued, name)


def test_certificate_is_not_trusted_for_other_names(issued: tuple[ssl.SSLContext, bytes]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(*issued, "other.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(issued[0], issue_certificate([])[1], "localhost")


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ConfigError, match=r"pip install 'kframework-sdk\[tls\]'"):
        issue_certificate([])
