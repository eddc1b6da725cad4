"""A rig whose one pod stands in a given place of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kframework.values.feature_gates import LATEST_MINOR
from tests.core.queue.rig import NODE_ADD, Rig, pending

__all__ = ["LONG", "STATES", "failed", "gated", "is_backing_off", "place_of"]

#: Longer than any backoff, in seconds.
LONG = 60.0


def failed(*rejectors: str, pending: tuple[str, ...] = ()) -> Rig:
    """Let the pod fail: rejected by plugins, or with an error."""
    rig = Rig()
    rig.add("pod")
    rig.pop()
    rig.put_back("pod", *rejectors, pending=pending)
    return rig


def gated(*, by: str = "Labels", minor: str = LATEST_MINOR) -> Rig:
    """Let a plugin hold the pod back."""
    rig = Rig(minor=minor)
    rig.gates["pod"] = by
    rig.add("pod")
    return rig


def is_backing_off(*, after_error: bool) -> Rig:
    """Let the pod back off, after an error or after a rejection and the event that it waited for."""
    if after_error:
        return failed()
    rig = failed("Fit")
    rig.queue.move_on_event(NODE_ADD)
    return rig


def active() -> Rig:
    """Make the pod active."""
    rig = gated()
    rig.gates.clear()
    rig.queue.activate(pending().uid)
    return rig


STATES: Mapping[str, Callable[[], Rig]] = {
    "active": active,
    "backoff": lambda: is_backing_off(after_error=False),
    "backoff after an error": lambda: is_backing_off(after_error=True),
    "unschedulable": lambda: failed("Fit"),
    "gated": gated,
}


def place_of(state: str) -> str:
    """Return the queue in which the pod of a state is counted."""
    return state.partition(" ")[0]
