"""What the tests of the structs share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kframework.objects.meta import ApiStruct

RoundTrip = Callable[[type[ApiStruct], dict[str, Any]], Any]


@pytest.fixture
def round_trip() -> RoundTrip:
    """Decode JSON into a struct and back, which must lose nothing, and answer the struct."""

    def through(struct: type[ApiStruct], fields: dict[str, Any]) -> Any:
        decoded = msgspec.json.decode(msgspec.json.encode(fields), type=struct)
        assert msgspec.json.decode(msgspec.json.encode(decoded)) == fields
        return decoded

    return through
