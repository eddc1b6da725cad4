"""What happens becomes lines, and the last of them are remembered as long as they matter."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.core.cycle.records import Decision, Result
from kframework.objects import ApiObject
from kframework.observe.recording.file import LineEncoder, PartStart
from kframework.state.inbox import BindingEnded, Deleted, Synced, Upserted
from kframework.testing import make_node, make_pod
from kframework.values.status import Code, Status


class Header(msgspec.Struct):
    """A header."""

    part: int = 2


PENDING, BOUND = make_pod("p"), make_pod("p", node_name="a")
UID = PENDING.metadata.uid
DECISION = Decision(
    attempt=1,
    pod_attempts=1,
    pod="default/p",
    uid=UID,
    profile="x",
    queued_at=1.0,
    popped_at=1.0,
    result=Result.SCHEDULED,
)
FAILED = Status(Code.ERROR, ("no",))


def told(scribe: LineEncoder, *happened: msgspec.Struct | str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(scribe.line((7.5, what))) for what in happened]


def opening(scribe: LineEncoder, *nodes: str) -> list[tuple[str, str]]:
    """Open a part; return what it tells, and of whom, without the header."""
    after = [(8.0, "After")]
    header, *lines = scribe.part_start(PartStart(Header(), nodes, before=[(8.0, Synced())], after=after))
    assert header == b'{"part":2}\n'
    found = map(msgspec.json.decode, lines)
    return [(line["what"], line.get("with", {}).get("metadata", {}).get("name", "")) for line in found]


def test_line_has_time_and_name() -> None:
    assert told(LineEncoder(), "Step", Synced(), BindingEnded("u", 3, None)) == [
        {"at": 7.5, "what": "Step"},
        {"at": 7.5, "what": "Synced", "with": {}},
        {"at": 7.5, "what": "BindingEnded", "with": {"uid": "u", "attempt": 3, "status": None, "rejector": None}},
    ]


def test_object_is_written_with_its_kind() -> None:
    (line,) = told(LineEncoder(), Upserted(PENDING))
    assert line["with"]["kind"] == "Pod" and line["with"]["metadata"]["name"] == "p"


def test_part_starts_with_the_nodes_in_order_and_all_objects() -> None:
    scribe = LineEncoder()
    told(scribe, *(Upserted(make_node(name)) for name in "abc"), Upserted(PENDING), Upserted(make_pod("q")), DECISION)
    told(scribe, Deleted(make_node("b")), Deleted(make_pod("q")))
    assert opening(scribe, "c", "a", "unknown") == [
        ("Upserted", "c"), ("Upserted", "a"), ("Upserted", "p"), ("Synced", ""), ("Decision", ""), ("After", "")
    ]  # fmt: skip


def test_part_starts_with_the_last_version_of_an_object() -> None:
    scribe = LineEncoder()
    told(scribe, Upserted(make_node("a", cpu=1)), Upserted(make_node("a", cpu=2)))
    _, line, *_ = scribe.part_start(PartStart(Header(), ["a"]))
    assert msgspec.json.decode(line)["with"]["status"]["allocatable"]["cpu"] == 2


@pytest.mark.parametrize(
    ("happened", "kept"),
    [
        (Upserted(PENDING), True),
        (BindingEnded(UID, 1, None), True),
        (BindingEnded(UID, 1, FAILED), False),
        (Upserted(BOUND), False),
        (Deleted(PENDING), False),
    ],
)
def test_part_starts_with_the_last_decisions_on_waiting_pods_only(happened: msgspec.Struct, kept: bool) -> None:
    scribe = LineEncoder()
    told(scribe, DECISION, happened)
    assert ("Decision" in [what for what, _ in opening(scribe)]) is kept


def test_objects_without_uid_are_distinguished() -> None:
    def anonymous(obj: ApiObject) -> Upserted:
        return Upserted(msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, uid="")))

    scribe = LineEncoder()
    told(scribe, *(anonymous(make_pod("p", namespace=namespace)) for namespace in ("a", "b")))
    assert [what for what, _ in opening(scribe)].count("Upserted") == 2
