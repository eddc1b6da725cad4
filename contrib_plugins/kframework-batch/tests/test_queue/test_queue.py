"""What of a Queue object a session reads."""

from __future__ import annotations

import pytest
from kframework_batch.objects import Guarantee, Queue, QueueSpec, QueueStatus
from kframework_batch.queue import QueueInfo

from kframework.objects import ObjectMeta
from kframework.objects.quantity import QuantityError

PLAIN = QueueSpec()


def info(spec: QueueSpec = PLAIN, state: str = "") -> QueueInfo:
    return QueueInfo(Queue(metadata=ObjectMeta(name="q"), spec=spec, status=QueueStatus(state=state)))


def test_amounts_are_read_once() -> None:
    spec = QueueSpec(
        capability={"cpu": "2"}, guarantee=Guarantee(resource={"memory": "1Ki"}), deserved={"gpu": 3, "cpu": "0"}
    )
    read = info(spec)
    assert (read.capability, read.guarantee, read.deserved) == ({"cpu": 2000}, {"memory": 1024}, {"gpu": 3, "cpu": 0})


@pytest.mark.parametrize(
    "spec",
    [
        QueueSpec(capability={"cpu": "two"}),
        QueueSpec(guarantee=Guarantee(resource={"cpu": "two"})),
        QueueSpec(deserved={"cpu": "two"}),
    ],
)
def test_what_is_no_quantity_is_refused(spec: QueueSpec) -> None:
    with pytest.raises(QuantityError, match="'two'"):
        info(spec)


@pytest.mark.parametrize(("weight", "read"), [(3, 3), (1, 1), (0, 1), (-4, 1)])
def test_a_queue_weighs_something(weight: int, read: int) -> None:
    assert info(QueueSpec(weight=weight)).weight == read


@pytest.mark.parametrize(("said", "yes"), [(None, True), (True, True), (False, False)])
def test_a_queue_gives_back_unless_it_says_otherwise(said: bool | None, yes: bool) -> None:
    assert info(QueueSpec(reclaimable=said)).reclaimable is yes


@pytest.mark.parametrize(
    ("state", "is_open"), [("", True), ("Open", True), ("Closing", False), ("Closed", False), ("Unknown", False)]
)
def test_a_queue_is_open_until_it_is_closed(state: str, is_open: bool) -> None:
    assert info(state=state).is_open is is_open
