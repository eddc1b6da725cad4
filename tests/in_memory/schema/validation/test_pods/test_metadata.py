"""Labels and annotations are spelt as they must be."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.in_memory.schema.validation.pods import metadata_causes


@pytest.mark.parametrize(
    ("metadata", "kind", "found"),
    [
        ({"name": "a", "labels": {"example.com/a": "b"}, "annotations": {"A": "anything at all"}}, "Pod", []),
        ({"labels": {"a b": "x"}}, "Pod", ['metadata.labels: Invalid value: "a b": name part must consist of']),
        ({"labels": {"a": "x y"}}, "Pod", ['metadata.labels: Invalid value: "x y": a valid label must be an empty']),
        ({"annotations": {"a b": "x"}}, "Pod", ['metadata.annotations: Invalid value: "a b": name part must consist']),
        ({"annotations": {"a": "x" * 300_000}}, "Pod", ["metadata.annotations: Too long: may not be more than 262144"]),
        ({"name": "a.b"}, "Service", ['metadata.name: Invalid value: "a.b": must not contain dots']),
        ({"name": "a.b"}, "Pod", []),
    ],
)
def test_invalid_value_has_causes(metadata: Any, kind: str, found: list[str]) -> None:
    causes = list(map(str, metadata_causes(metadata, kind)))
    assert len(causes) == len(found), causes
    assert all(text.startswith(beginning) for text, beginning in zip(causes, found, strict=True)), causes
