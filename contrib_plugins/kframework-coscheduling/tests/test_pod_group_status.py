"""The status of a PodGroup, from its pods."""

from __future__ import annotations

import pytest
from kframework_coscheduling import PodGroup, PodGroupStatus
from kframework_coscheduling.pod_groups import patch_of, status_of
from msgspec.structs import replace

from kframework.objects import OwnerReference, Pod, PodStatus
from kframework.testing import make_pod
from tests.support.gangs import group


def pods(phases: str) -> list[Pod]:
    """Make pods in these phases: Pending, Running, Succeeded, Failed by their first letters."""
    names = {"P": "Pending", "R": "Running", "S": "Succeeded", "F": "Failed"}
    return [replace(make_pod(f"p{index}"), status=PodStatus(phase=names[each])) for index, each in enumerate(phases)]


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ("", "Pending"),
        ("PP", "Pending"),
        ("RR", "Pending"),  # a pod is missing
        ("PPP", "Scheduling"),
        ("RRP", "Scheduling"),
        ("RRR", "Running"),
        ("RRRP", "Running"),
        ("RRS", "Running"),
        ("RFR", "Failed"),
        ("PFR", "Scheduling"),  # the others may still make it
        ("SSF", "Failed"),
        ("SSS", "Finished"),
        ("SSSF", "Finished"),
    ],
)
def test_phase_follows_from_the_pods(phases: str, phase: str) -> None:
    status = status_of(group("red", 3), pods(phases))
    assert status.phase == phase
    assert (status.running, status.succeeded, status.failed) == tuple(phases.count(each) for each in "RSF")


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_final_phase_stays(phase: str) -> None:
    ended = replace(group("red", 3), status=PodGroupStatus(phase=phase, succeeded=3))
    assert status_of(ended, pods("PP")) == ended.status


def test_owners_are_named_once_the_group_is_complete() -> None:
    owner = OwnerReference(api_version="batch/v1", kind="Job", name="train", uid="1")
    owned = [make_pod(f"p{index}", owner=owner) for index in range(2)]
    assert status_of(group("red", 3), owned).occupied_by == ""
    known: PodGroup = replace(group("red", 2), status=status_of(group("red", 2), owned))
    assert known.status.occupied_by == "default/train"
    assert status_of(known, [make_pod("other")] * 2).occupied_by == "default/train"


def test_patch_replaces_numbers_by_zero() -> None:
    assert patch_of(PodGroupStatus(phase="Pending")) == {
        "phase": "Pending",
        "occupiedBy": "",
        "running": 0,
        "succeeded": 0,
        "failed": 0,
    }
