"""The scheduler at a glance: how much there is of everything, and how the last attempts went."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework.core.pod_engine import PodEngine
from kframework.observe.history import History
from kframework.observe.web.attempts import COUNTED, Durations, Timeline, durations, timeline


class Summary(msgspec.Struct, frozen=True):
    """What stands above all else on the page.

    `now` is the scheduler's time in seconds since 1970, `synced` whether it has seen the whole cluster. `timeline` and
    `took` are about the last `counted` attempts.
    """

    now: float
    synced: bool
    profiles: tuple[str, ...]
    nodes: int
    pods_on_nodes: int
    pending: Mapping[str, int]
    binding: int
    attempts: int
    counted: int
    timeline: Timeline
    took: Durations | None


def summary(engine: PodEngine, history: History, *, counted: int = COUNTED) -> Summary:
    """Sum up how things stand, and how so many of the last attempts went."""
    decisions = history.recent(counted)
    now = engine.clock.now()
    return Summary(
        now,
        engine.synced,
        tuple(engine.profiles),
        len(engine.cluster.nodes),
        len(engine.cluster.pods),
        engine.queue.pending(),
        len(engine.cluster.waiting),
        engine.attempts,
        len(decisions),
        timeline(decisions, now),
        durations(decisions),
    )
