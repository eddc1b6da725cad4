"""Each kind has its own defaults, others have none."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.fake_api.schema.defaults.kinds import with_defaults


@pytest.mark.parametrize(
    ("api_version", "kind", "data", "found"),
    [
        ("v1", "Secret", {}, {"type": "Opaque"}),
        (
            *("v1", "Secret", {"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y"}}),
            {"type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}},
        ),
        ("v1", "PersistentVolumeClaim", {"spec": {}}, {"spec": {"volumeMode": "Filesystem"}}),
        ("v1", "Pod", {"spec": 1}, {"spec": 1}),
        ("storage.k8s.io/v1", "StorageClass", {}, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
        ("example.com/v1", "Secret", {}, {}),
    ],
)
def test_what_is_filled_in(api_version: str, kind: str, data: Any, found: Any) -> None:
    assert with_defaults(data, api_version, kind) == found
