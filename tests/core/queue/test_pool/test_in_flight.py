"""InFlight: the events since the oldest pop that is not done, and which of them each pod has to hear of."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kframework.core.queue.pool import InFlightPods
from kframework.framework.events import ActionType, ObservedEvent


def event(number: int) -> ObservedEvent:
    """Make a distinct event."""
    return ObservedEvent("Node", ActionType.ADD, name=str(number))


def heard(in_flight: InFlightPods, uid: str) -> str:
    return "".join(event.label for event in in_flight.events_since_pop(uid))


steps = st.lists(st.tuples(st.sampled_from(["pop", "happened", "happened", "done"]), st.sampled_from("abcd")))


@given(steps)
def test_in_flight_pods_equal_the_single_list_of_kube_scheduler(steps: list[tuple[str, str]]) -> None:
    """Compare with the one list of kube-scheduler, in which pods and events stand as they came."""
    in_flight = InFlightPods()
    entries: list[tuple[str, str]] = []
    for number, (step, uid) in enumerate(steps):
        pods = [entry[1] for entry in entries if entry[0] == "pod"]
        if step == "pop" and uid not in pods:
            in_flight.pop(uid)
            entries.append(("pod", uid))
        elif step == "happened":
            in_flight.add(event(number))
            if pods:
                entries.append(("event", str(number)))
        elif step == "done":
            assert in_flight.done(uid) == (uid in pods)
            entries = [entry for entry in entries if entry != ("pod", uid)]
            while entries and entries[0][0] == "event":
                entries.pop(0)
        pods = [entry[1] for entry in entries if entry[0] == "pod"]
        assert len(in_flight) == len(pods)
        assert in_flight.events == len(entries) - len(pods)
        assert +in_flight.event_counts == Counter(name for kind, name in entries if kind == "event")
        for pod in pods:
            after = entries[entries.index(("pod", pod)) :]
            assert heard(in_flight, pod) == "".join(name for kind, name in after if kind == "event")
