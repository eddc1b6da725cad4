"""Changes of claims: what they make of them, and how they are said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.explain.remedies.remedies import Remedy
from kframework.framework.claim_suggestions import ClaimChange, DropClause, DropConstraint, LowerCount, TolerateDevices
from kframework.objects import DeviceConstraint, DeviceTaint, ResourceClaim

ASKED = {"deviceClassName": "gpu", "count": 4, "selectors": [{"cel": {"expression": "a && b"}}]}
MATCH, DISTINCT = {"matchAttribute": "d/numa"}, {"distinctAttribute": "d/model"}
CLAIM = {
    "requests": [
        {"name": "one", "exactly": ASKED},
        {"name": "either", "firstAvailable": [{"name": "x", **ASKED}, {"name": "y", **ASKED}]},
    ],
    "constraints": [MATCH, DISTINCT],
}
WORN = DeviceTaint(key="worn", value="very", effect="NoSchedule")
ON = "default/c"


def claim(devices: dict[str, Any]) -> ResourceClaim:
    metadata = {"name": "c", "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": {"devices": devices}}, ResourceClaim)


def asking(one: dict[str, Any] | None = None, y: dict[str, Any] | None = None) -> dict[str, Any]:
    either = [{"name": "x", **ASKED}, {"name": "y", **ASKED, **(y or {})}]
    requests = [{"name": "one", "exactly": {**ASKED, **(one or {})}}, {"name": "either", "firstAvailable": either}]
    return {**CLAIM, "requests": requests}


CHANGES = [
    (
        TolerateDevices(ON, "either/y", WORN),
        "let request either/y of claim default/c tolerate worn=very:NoSchedule",
        asking(y={"tolerations": [{"key": "worn", "operator": "Equal", "value": "very", "effect": "NoSchedule"}]}),
    ),
    (
        TolerateDevices(ON, "one", DeviceTaint(key="worn", effect="NoExecute")),
        "let request one of claim default/c tolerate worn:NoExecute",
        asking({"tolerations": [{"key": "worn", "operator": "Exists", "effect": "NoExecute"}]}),
    ),
    (
        LowerCount(ON, "one", 3, 1),
        "lower the count in request one of claim default/c from 4 to 1",
        asking({"count": 1}),
    ),
    (
        DropClause(ON, "one", "a", "a && b", "b"),
        "drop a from request one of claim default/c",
        asking({"selectors": [{"cel": {"expression": "b"}}]}),
    ),
    (
        DropClause(ON, "either/y", "a && b", "a && b", ""),
        "drop a && b from request either/y of claim default/c",
        asking(y={"selectors": []}),
    ),
    (
        DropConstraint(ON, msgspec.convert(MATCH, DeviceConstraint)),
        "drop matchAttribute d/numa from claim default/c",
        {**CLAIM, "constraints": [DISTINCT]},
    ),
    (
        DropConstraint(ON, msgspec.convert(DISTINCT, DeviceConstraint)),
        "drop distinctAttribute d/model from claim default/c",
        {**CLAIM, "constraints": [MATCH]},
    ),
]


@pytest.mark.parametrize(("change", "text", "after"), CHANGES)
def test_a_change_does_what_it_says(change: ClaimChange, text: str, after: dict[str, Any]) -> None:
    assert change.text == text
    assert change.on_claim(claim(CLAIM)) == claim(after)


@pytest.mark.parametrize("change", [change for change, _, _ in CHANGES])
def test_changes_are_read_back_from_json(change: ClaimChange) -> None:
    remedy = Remedy("so", (change,))  # type: ignore[arg-type]  # each is a kind of change
    assert msgspec.json.decode(msgspec.json.encode(remedy), type=Remedy) == remedy


def test_a_count_is_lowered_by_less() -> None:
    assert LowerCount(ON, "one", 3, 1).less() == LowerCount(ON, "one", 2, 2)
    assert LowerCount(ON, "one", 1, 3).less() is None
