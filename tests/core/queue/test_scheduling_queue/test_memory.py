"""What the queue keeps does not grow, however long it runs."""

from __future__ import annotations

from collections import deque

import pytest

from kframework.state.pods import QueuedPod
from tests.core.queue.rig import NODE_ADD, POD_GONE, Rig, pending

CYCLES = 100_000
#: Pods that exist, and those of them in flight at any time.
PODS, IN_FLIGHT = 6, 3


@pytest.mark.slow
def test_events_are_dropped_when_no_older_pod_is_in_flight() -> None:
    """Pods are always in flight, each comes back or is done after a few cycles, and every cycle something happens."""
    rig = Rig()
    queue, in_flight = rig.queue, deque[QueuedPod]()
    rig.add(*(f"pod-{number}" for number in range(PODS)))
    most = 0
    for cycle in range(CYCLES):
        rig.now += 0.1
        queued = queue.pop()
        assert queued is not None
        in_flight.append(queued)
        queue.move_on_event(NODE_ADD if cycle % 2 else POD_GONE)
        most = max(most, queue.in_flight.events)
        if len(in_flight) == IN_FLIGHT:
            returned = in_flight.popleft()
            if cycle % 3:
                returned.unschedulable_plugins = frozenset({"Fit"})
                queue.put_back(returned)
            else:
                queue.done(returned.pod.uid)
                queue.add(pending(returned.pod.name))
    assert 0 < most <= IN_FLIGHT
    assert len(queue.in_flight) == len(in_flight) < IN_FLIGHT
    for queued in in_flight:
        queue.done(queued.pod.uid)
    assert (len(queue.in_flight), queue.in_flight.events, len(queue)) == (0, 0, PODS - len(in_flight))
