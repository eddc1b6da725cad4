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


def test_quantities_of_a_queue_are_parsed() -> None:
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
def test_invalid_quantity_is_rejected(spec: QueueSpec) -> None:
    with pytest.raises(QuantityError, match="'two'"):
        info(spec)


@pytest.mark.parametrize(("weight", "read"), [(3, 3), (1, 1), (0, 1), (-4, 1)])
def test_queue_weight_is_at_least_one(weight: int, read: int) -> None:
    assert info(QueueSpec(weight=weight)).weight == read


@pytest.mark.parametrize(("said", "yes"), [(None, True), (True, True), (False, False)])
def test_queue_is_reclaimable_by_default(said: bool | None, yes: bool) -> None:
    assert info(QueueSpec(reclaimable=said)).reclaimable is yes


@pytest.mark.parametrize(
    ("state", "is_open"), [("", True), ("Open", True), ("Closing", False), ("Closed", False), ("Unknown", False)]
)
def test_queue_is_open_by_default(state: str, is_open: bool) -> None:
    assert info(state=state).is_open is is_open
