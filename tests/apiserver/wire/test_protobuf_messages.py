"""The table of messages holds together."""

from __future__ import annotations

from kframework.apiserver.wire.protobuf_messages import MESSAGES


def test_every_type_is_one_that_can_be_read() -> None:
    plain = {"string", "bytes", "int", "bool"}
    types = {kind.strip("*?") for fields in MESSAGES.values() for _, kind in fields.values()}
    assert types <= plain | MESSAGES.keys()


def test_no_message_has_two_fields_of_one_name() -> None:
    for name, fields in MESSAGES.items():
        names = [field for field, _ in fields.values()]
        assert len(names) == len(set(names)), name
