"""PodGroups of scheduler-plugins keep all their fields."""

from __future__ import annotations

from kframework.objects import SigsPodGroup, find_kind
from tests.objects.conftest import RoundTrip

GROUP = {
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"minMember": 3, "minResources": {"cpu": "6"}, "scheduleTimeoutSeconds": 10},
    "status": {
        "phase": "Running",
        "occupiedBy": "team/train",
        "scheduled": 3,
        "running": 2,
        "succeeded": 1,
        "failed": 1,
        "scheduleStartTime": "2026-01-01T00:00:00Z",
    },
}


def test_group_keeps_all_fields(round_trip: RoundTrip) -> None:
    round_trip(SigsPodGroup, GROUP)


def test_group_is_told_apart_from_that_of_kubernetes() -> None:
    known = {
        version: find_kind(version, "PodGroup")
        for version in ("scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1beta1")
    }
    assert all(known.values())
    assert len({each.struct for each in known.values() if each is not None}) == 2
