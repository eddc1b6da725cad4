"""Who listens for this machine alone answers only to names of this machine."""

from __future__ import annotations

import pytest

from kframework.cluster.loopback import is_meant_for_us


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
