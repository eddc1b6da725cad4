"""Who listens for this machine alone answers only to names of this machine."""

from __future__ import annotations

import pytest

from kframework.client.loopback import is_meant_for_us, keeps_secrets, names_a_user


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
def test_who_is_answered(bind_address: str, host: str, answered: bool) -> None:
    assert is_meant_for_us(bind_address, host) is answered


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
def test_where_credentials_may_go(url: str, proxy: str | None, kept: bool) -> None:
    assert keeps_secrets(url, proxy) is kept


def test_who_a_url_names() -> None:
    assert [names_a_user(url) for url in ("http://a@b/", "http://a:b@c", "http://b/a@c", "http://b", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
