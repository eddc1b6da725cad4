"""Who listens for this machine alone answers only to names of this machine."""

from __future__ import annotations

import pytest

from kframework.client.loopback import has_credentials, is_confidential, is_host_allowed


@pytest.mark.parametrize(
    ("bind_address", "host", "answered"),
    [
        ("127.0.0.1", "127.0.0.1:10259", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "LOCALHOST:80", True),
        ("127.0.0.1", "127.9.9.9:1", True),
        ("localhost", "[::1]:10259", True),
        ("::1", "localhost:1", True),
        ("127.0.0.1", "evil.example:10259", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example:1", False),
        ("127.0.0.1", "10.0.0.1", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "[::1", False),
        ("0.0.0.0", "scheduler.kube-system:10259", True),
        ("10.0.0.1", "anything", True),
        ("node-1", "anything", True),
    ],
)
def test_host_header_is_allowed(bind_address: str, host: str, answered: bool) -> None:
    assert is_host_allowed(bind_address, host) is answered


@pytest.mark.parametrize(
    ("url", "proxy", "kept"),
    [
        ("https://far", None, True),
        ("HTTPS://far", "http://far", True),
        ("http://far", None, False),
        ("http://10.0.0.1:6443/x", None, False),
        ("http://localhost:8080", None, True),
        ("http://LOCALHOST", None, True),
        ("http://127.0.0.1", None, True),
        ("http://127.8.9.1:1/127.0.0.1", None, True),
        ("http://[::1]:1", None, True),
        ("http://localhost", "http://localhost:3128", True),
        ("http://localhost", "http://proxy:3128", False),
        ("http://localhost", "proxy:3128", False),
        ("http://localhost.far", None, False),
        ("http://localhost@far", None, False),
        ("http://far/localhost", None, False),
        ("http://[", None, False),
        ("http://", None, False),
    ],
)
def test_url_is_confidential(url: str, proxy: str | None, kept: bool) -> None:
    assert is_confidential(url, proxy) is kept


def test_url_has_credentials() -> None:
    assert [has_credentials(url) for url in ("http://a@b/", "http://a:b@c", "http://b/a@c", "http://b", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
