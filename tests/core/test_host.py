"""A reservation carries what its binding cycle needs."""

from __future__ import annotations

from kframework.core.cycle.results import Reservation
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.cycle_state import CycleState
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod, QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.testing import make_pod
from tests.extension_points.scripted import profile


def test_reservation_keeps_the_version_of_the_pod_that_was_scheduled() -> None:
    """Even when the queue's copy is replaced by a newer one meanwhile."""
    pod, newer = (PendingPod(each, TemplateInterner()) for each in (make_pod(), make_pod(labels={"x": "y"})))
    queued = QueuedPod(pod, 0.0)
    reserved = ReservedPod(pod, "a", {}, 0.0)
    reservation = Reservation(profile(), queued, CycleState(), reserved, AttemptTrace(pod, 3))
    queued.pod = newer
    assert (reservation.pod, reservation.node_name, reservation.attempt) == (pod, "a", 3)
