"""Kubelets that live show it without a write, and those that do not are silent."""

from __future__ import annotations

import pytest

from kframework.clock import VIRTUAL_EPOCH, rfc3339
from kframework.fake_api.node_leases import last_renewal, with_heartbeats
from kframework.fake_api.wire.documents import ApiDocument
from kframework.objects import Lease, Node, NodeCondition, NodeStatus, ObjectMeta

CREATED = "2026-01-01T00:00:00Z"


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return VIRTUAL_EPOCH + self.seconds


def node(status: str = "True", heartbeat: str | None = CREATED, name: str = "n1", more: str | None = None) -> Node:
    ready = NodeCondition(type="Ready", status=status, last_heartbeat_time=heartbeat)
    full = NodeCondition(type="DiskPressure", status="False", last_heartbeat_time=more)
    metadata = ObjectMeta(name=name, creation_timestamp=CREATED)
    return Node(metadata=metadata, status=NodeStatus(conditions=(ready, full) if more else (ready,)))


def heartbeats(document: ApiDocument) -> list[object]:
    status = document.data["status"]
    assert isinstance(status, dict)
    return [each.get("lastHeartbeatTime") for each in status["conditions"]]


@pytest.mark.parametrize(
    ("heartbeat", "seconds", "expected"),
    [
        (CREATED, 299, CREATED),
        (CREATED, 300, "2026-01-01T00:05:00Z"),
        (CREATED, 86_400 + 7, "2026-01-02T00:00:00Z"),
        ("2025-12-31T23:59:47Z", 0, "2025-12-31T23:59:47Z"),
        ("2025-12-31T23:50:47Z", 60, "2026-01-01T00:00:47Z"),
        ("2027-01-01T00:00:00Z", 900, "2027-01-01T00:00:00Z"),
        ("yesterday", 900, "yesterday"),
        (None, 900, None),
    ],
)
def test_heartbeats_are_renewed_every_five_minutes(heartbeat: str | None, seconds: float, expected: str | None) -> None:
    clock = Hands()
    document = with_heartbeats(clock, ApiDocument.from_struct(node(heartbeat=heartbeat)))
    clock.seconds = seconds
    assert heartbeats(document) == [expected]
    assert heartbeats(with_heartbeats(clock, document)) == [expected]


def test_each_condition_has_its_own_heartbeat() -> None:
    clock = Hands()
    document = with_heartbeats(clock, ApiDocument.from_struct(node(more="2026-01-01T00:01:00Z")))
    clock.seconds = 620
    assert heartbeats(document) == ["2026-01-01T00:10:00Z", "2026-01-01T00:06:00Z"]
    assert {**document.data, "status": None} == {**ApiDocument.from_struct(node()).data, "status": None}


def test_lost_node_has_no_heartbeats() -> None:
    clock = Hands()
    lost = ApiDocument.from_struct(node("Unknown"))
    assert with_heartbeats(clock, lost) is lost
    not_ready = with_heartbeats(clock, ApiDocument.from_struct(node("False")))
    clock.seconds = 300
    assert heartbeats(not_ready) == ["2026-01-01T00:05:00Z"]


def test_other_kinds_have_no_heartbeat() -> None:
    lease = ApiDocument.from_struct(Lease(metadata=ObjectMeta(name="a")))
    assert with_heartbeats(Hands(), lease) is lease


def test_lease_renewals_are_staggered_within_ten_seconds() -> None:
    for start in (0.0, 3.25, 1e6):
        first = last_renewal(node(), VIRTUAL_EPOCH + start)
        assert 0 <= VIRTUAL_EPOCH + start - first < 10
        assert last_renewal(node(), first + 9.999) == first
        assert last_renewal(node(), first + 10) == pytest.approx(first + 10, abs=1e-6)
    moments = {last_renewal(node(name=f"n{number}"), VIRTUAL_EPOCH) for number in range(100)}
    assert len(moments) == 100


@pytest.mark.parametrize(
    ("heartbeat", "last_heard"),
    [("2026-01-01T00:20:00Z", 1200), (None, 0), ("yesterday", 0)],
)
def test_lost_node_renews_no_lease(heartbeat: str | None, last_heard: int) -> None:
    renewed = last_renewal(node("Unknown", heartbeat), VIRTUAL_EPOCH + 5000)
    assert 0 <= VIRTUAL_EPOCH + last_heard - renewed < 10


def test_heartbeat_has_an_api_servers_format() -> None:
    clock = Hands()
    document = with_heartbeats(clock, ApiDocument.from_struct(node(heartbeat="2026-01-01T01:00:00+01:00")))
    clock.seconds = 301
    assert heartbeats(document) == [rfc3339(VIRTUAL_EPOCH + 300)]


def test_heartbeats_continue_from_a_renewed_one() -> None:
    clock = Hands()
    document = with_heartbeats(clock, ApiDocument.from_struct(node(more="2026-01-01T00:01:00Z")))
    recorded = []
    for seconds in (0, 359, 360, 361, 599.9, 600):
        clock.seconds = seconds
        recorded.append([str(each)[14:19] for each in heartbeats(document)])
    assert recorded == [["00:00", "01:00"], ["05:00", "01:00"], *[["05:00", "06:00"]] * 3, ["10:00", "06:00"]]
