"""The table of messages holds together."""

from __future__ import annotations

import pytest

from kframework.fake_api.wire.protobuf_messages import _WRITTEN, fields_of, message_of

PLAIN = {"string", "bytes", "int", "bool", "map"}


def test_every_type_is_one_that_can_be_read() -> None:
    types = {kind.strip("*?^").removeprefix("map:") for name in _WRITTEN for _, kind in fields_of(name).values()}
    assert types <= PLAIN | _WRITTEN.keys()


def test_no_message_has_two_fields_of_one_name() -> None:
    for name in _WRITTEN:
        names = [field for field, _ in fields_of(name).values() if field]
        assert len(names) == len(set(names)), name


@pytest.mark.parametrize(
    ("api_version", "kind", "message"),
    [
        ("v1", "Pod", "Pod"),
        ("v1", "Event", "core.Event"),
        ("events.k8s.io/v1", "Event", "events.Event"),
        ("resource.k8s.io/v1", "ResourceClaim", "resource.ResourceClaim"),
        ("apps/v1", "Deployment", "Deployment"),
        ("policy/v1", "Eviction", "Eviction"),
        ("example.com/v1", "Pod", None),
        ("v1", "Widget", None),
    ],
)
def test_the_message_of_a_kind(api_version: str, kind: str, message: str | None) -> None:
    assert message_of(api_version, kind) == message
