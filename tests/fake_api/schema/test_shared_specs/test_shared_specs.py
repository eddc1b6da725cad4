"""Bodies with one spec share it, and whatever is odd about a body is left to others."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest

from kframework.fake_api.schema.shared_specs import SharedSpecs
from kframework.fake_api.wire.documents import Data
from kframework.objects.codec import without_nulls


def plain(body: bytes) -> Data | None:
    data = cast("Data", without_nulls(msgspec.json.decode(body)))
    return None if "bad" in data else data


def filled(data: Data) -> Data:
    return {**data, "spec": {"filled": data["spec"]}} if "spec" in data else data


def test_spec_is_decoded_once() -> None:
    specs = SharedSpecs(plain, filled)
    first, second = (specs.read(b'{"metadata":{"name":"%d"},"spec":{"a":1}}' % number) for number in (1, 2))
    assert first is not None
    assert second is not None
    assert second == {"metadata": {"name": "2"}, "spec": {"filled": {"a": 1}}}
    assert first["spec"] is second["spec"]


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        b"[]",
        b"{}",
        b'{"spec":{"a":1},"other":{"a":1}}',
        b'{"spec":{"a":1},"bad":1}',
        b'{"spec":null}',
        b'{"spec":{"a":"%s"}}' % (b"x" * 20_000),
    ],
)
def test_odd_body_is_not_cached(body: bytes) -> None:
    assert SharedSpecs(plain, filled).read(body) is None
