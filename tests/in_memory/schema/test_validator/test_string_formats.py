"""Texts are of a format or not."""

from __future__ import annotations

import pytest

from kframework.in_memory.schema.validator import has_format

GOOD_AND_BAD = {
    "byte": ("eA==", "a b"),
    "cidr": ("10.0.0.0/8", "10.0.0.0/99"),
    "date": ("2026-01-31", "2026-02-31"),
    "date-time": ("2026-01-02T03:04:05Z", "2026-01-02"),
    "duration": ("1h30m", "soon"),
    "email": ("a@b.example", "a"),
    "hostname": ("a.example", "-a"),
    "ipv4": ("10.0.0.1", "::1"),
    "ipv6": ("::1", "10.0.0.1"),
    "mac": ("01:23:45:67:89:ab", "01:23"),
    "uri": ("https://a.example/x", "a"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000", "123"),
}


@pytest.mark.parametrize("name", GOOD_AND_BAD)
def test_text_has_a_format(name: str) -> None:
    good, bad = GOOD_AND_BAD[name]
    assert has_format(name, good)
    assert not has_format(name, bad)


def test_unknown_format_accepts_any_text() -> None:
    assert has_format("nonsense", "anything")
