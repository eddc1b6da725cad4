"""A server's certificate is known by the authority that signed it, by the names it was made for."""

from __future__ import annotations

import ssl
import sys

import pytest

from kframework.errors import ConfigError
from kframework.fake_api.published import issue


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
    return issue(["192.0.2.7", "api.example"])


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "kubernetes.default.svc", "192.0.2.7", "api.example"])
def test_it_is_trusted_by_its_names(issued: tuple[ssl.SSLContext, bytes], name: str) -> None:
    shake_hands(*issued, name)


def test_it_is_not_trusted_by_others(issued: tuple[ssl.SSLContext, bytes]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(*issued, "other.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(issued[0], issue([])[1], "localhost")


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(ConfigError, match=r"pip install 'kframework-sdk\[tls\]'"):
        issue([])
