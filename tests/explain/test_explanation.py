"""Every field of an explanation is documented."""

from __future__ import annotations

import msgspec
import pytest

from kframework.explain.explanation import (
    Assessment,
    Explanation,
    NodeChoice,
    NodeScore,
    NominatedRoom,
    PreemptionPreview,
    Rejection,
    RejectionDetails,
    Score,
    ScoreLead,
    State,
    Waiting,
    WakeEvents,
    WeightChange,
)
from tests.architecture.sources import ROOT

DOCUMENT = (ROOT / "docs/reference/explanation.md").read_text()


@pytest.mark.parametrize(
    "struct",
    [
        Explanation,
        Assessment,
        Rejection,
        RejectionDetails,
        NodeScore,
        Score,
        NominatedRoom,
        PreemptionPreview,
        Waiting,
        WakeEvents,
        NodeChoice,
        ScoreLead,
        WeightChange,
    ],
)
def test_every_field_is_documented(struct: type[msgspec.Struct]) -> None:
    assert [name for name in struct.__struct_encode_fields__ if f"`{name}`" not in DOCUMENT] == []


def test_every_state_is_documented() -> None:
    assert [state for state in State if f"`{state}`" not in DOCUMENT] == []
