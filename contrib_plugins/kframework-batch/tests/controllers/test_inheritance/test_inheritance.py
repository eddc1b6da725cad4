"""Only what is about pushing pods out is handed down."""

from __future__ import annotations

import pytest
from kframework_batch.controllers.inheritance import inherited_annotations, inherited_labels

PREEMPTABLE = {"volcano.sh/preemptable": "true"}
COOLDOWN = {"volcano.sh/cooldown-time": "5m"}
ZONE = {"volcano.sh/revocable-zone": "*"}
LEAST, MOST = {"volcano.sh/jdb-min-available": "2"}, {"volcano.sh/jdb-max-unavailable": "1"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, {}),
        (PREEMPTABLE | COOLDOWN | ZONE | {"team": "a"}, PREEMPTABLE | COOLDOWN | ZONE),
        (MOST, MOST),
        (MOST | LEAST, LEAST),
    ],
)
def test_annotations_are_inherited(annotations: dict[str, str], expected: dict[str, str]) -> None:
    assert inherited_annotations(annotations) == expected


def test_labels_are_inherited() -> None:
    assert inherited_labels(PREEMPTABLE | COOLDOWN | ZONE | LEAST | {"team": "a"}) == PREEMPTABLE | COOLDOWN
