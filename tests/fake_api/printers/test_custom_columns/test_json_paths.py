"""The paths of printer columns."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.custom_columns import compile_json_path

DOCUMENT = {
    "metadata": {"annotations": {"a.b/c": "1"}, "labels": {"x.y": "z"}},
    "spec": {"sizes": [3, 5], "on": True, "none": None},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "n": 1},
            {"type": "Done", "status": "True", "n": 2, "on": True},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.on", [True]),
        ("{.spec.on}", [True]),
        ("$.spec.on", [True]),
        (".spec.none", [None]),
        (".spec.nothing.at.all", []),
        (".spec.on.below", []),
        (".metadata.annotations['a.b/c']", ["1"]),
        ('.metadata.annotations["a.b/c"]', ["1"]),
        (r".metadata.annotations.a\.b/c", ["1"]),
        (r".metadata.labels.x\.y", ["z"]),
        (".spec.sizes[0]", [3]),
        (".spec.sizes[-1]", [5]),
        (".spec.sizes[2]", []),
        (".spec.on[0]", []),
        (".spec.sizes[*]", [3, 5]),
        (".status.conditions[*].type", ["Ready", "Done"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["False"]),
        (".status.conditions[?(@.type == 'Done')].n", [2]),
        (".status.conditions[?(@.n==2)].type", ["Done"]),
        (".status.conditions[?(@.on==true)].type", ["Done"]),
        ('.status.conditions[?(@.type=="Gone")].status', []),
        ('.spec[?(@.type=="Gone")].status', []),
        (".spec.*", [[3, 5], True, None]),
        ("..spec", []),
        (".status.conditions[?(@.n>1)].type", []),
    ],
)
def test_path_yields_its_values(path: str, found: list[object]) -> None:
    assert list(compile_json_path(path)(DOCUMENT)) == found
