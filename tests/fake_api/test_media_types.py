"""What clients accept, in the order in which they prefer it."""

from __future__ import annotations

import pytest

from kframework.client.transport import JSON
from kframework.fake_api.media_types import MediaType, accepted, encoding
from kframework.fake_api.wire.yaml_bodies import YAML

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "found"),
    [
        ("", [MediaType(JSON)]),
        ("*/*", [MediaType(JSON)]),
        ("application/*;q=0.1", [MediaType(JSON)]),
        (f"{PROTOBUF},{YAML}", [MediaType(YAML)]),
        (f"{JSON};q=0.5, {YAML}", [MediaType(YAML), MediaType(JSON)]),
        (f"{JSON};q=0.5,{YAML};q=0.5", [MediaType(JSON), MediaType(YAML)]),
        (f"{JSON};q=0,{YAML};q=none", [MediaType(YAML)]),
        (f"{TABLE},Application/JSON", [MediaType(JSON, "Table"), MediaType(JSON)]),
        (f"{JSON};as=Table", []),
        (PROTOBUF, []),
        (",;,=;q=", []),
    ],
)
def test_what_is_preferred_comes_first(accept: str, found: list[MediaType]) -> None:
    assert list(accepted(accept)) == found
    assert encoding(accept) == (found[0].encoding if found else JSON)
