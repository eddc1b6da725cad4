"""How long a job waits before it makes a pod in the place of a failed one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kframework.clock import seconds_of
from kframework.objects import Pod

#: How long it waits after one failure, and at most, in seconds; it doubles.
_FIRST, _LONGEST = 10.0, 600.0


class Backoff(NamedTuple):
    """How many pods of a job have failed since one has succeeded, and when the last did."""

    failures: int = 0
    failed_at: float = 0.0

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
        """Take in the pods that have ended since it was last looked at."""
        success = max(map(ended_at, succeeded), default=None)
        failures = sorted(at for at in map(ended_at, failed) if success is None or at > success)
        before = self if success is None else Backoff()
        return Backoff(before.failures + len(failures), failures[-1]) if failures else before

    def remaining(self, now: float) -> float:
        """Return how many seconds are still to be waited."""
        if not self.failures:
            return 0.0
        wait: float = min(_FIRST * 2 ** min(self.failures - 1, 32), _LONGEST)
        return max(0.0, wait - (now - self.failed_at))


def ended_at(pod: Pod) -> float:
    """Return when a pod ended, as well as its status tells."""
    said = [each for each in pod.status.conditions if (each.type, each.status) == ("Ready", "False")]
    if said and (text := said[0].last_transition_time):
        return seconds_of(text)
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        return seconds_of(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    return seconds_of(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0
