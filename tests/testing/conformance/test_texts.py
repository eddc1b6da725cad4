"""Results recorded from 1.36 get the texts of 1.37."""

from __future__ import annotations

import pytest

from kframework.testing.conformance.texts import with_texts_of_1_37

FIT = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("code", "message", "now"),
    [
        ("Unschedulable", "no new claims to deallocate, preemption: no", "preemption: no"),
        ("Unschedulable", "still not schedulable, preemption: no", "preemption: no"),
        ("Unschedulable", "deallocation of ResourceClaim completed", "deallocation of ResourceClaim completed"),
        ("Unschedulable", "no new claims to deallocate", ""),
        ("Success", "", "preemption: found a potential placement for pod on node a, preempting 1 victims"),
    ],
)
def test_message_of_post_filter_is_that_of_1_37(code: str, message: str, now: str) -> None:
    recorded = {"code": code, "message": message, "nominatedNode": "a", "victims": ["default/x"]}
    result = with_texts_of_1_37({"fitError": FIT, "postFilter": recorded})["postFilter"]
    assert isinstance(result, dict)
    assert (result.get("message", ""), result["fitErrorAfterPostFilter"]) == (now, f"{FIT} {now}".rstrip())


def test_other_results_stay_as_they_are() -> None:
    assert with_texts_of_1_37({"feasible": ["a"]}) == {"feasible": ["a"]}
