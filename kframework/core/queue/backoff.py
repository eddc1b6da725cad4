"""The backoff of pods whose attempts failed."""

from __future__ import annotations

import math

import msgspec

from kframework.state.pods import QueuedPod


class Backoff(msgspec.Struct, frozen=True):
    """The backoff of the configuration, in seconds; a `maximum` of 0 turns it off."""

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, queued: QueuedPod) -> float:
        """Return the backoff of a pod in seconds: doubled for each failure, errors in a row before rejections."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if not failures or not self.maximum:
            return 0.0
        # 2**63 seconds exceed any maximum; larger powers would only cost time.
        return min(self.initial * 2.0 ** min(failures - 1, 63), self.maximum)

    def expiry(self, queued: QueuedPod) -> float:
        """Return the whole second in which the pod's backoff ends, computed once per failure."""
        if queued.backoff_expiry is None:
            duration = self.duration(queued)
            queued.backoff_expiry = math.floor(queued.timestamp + duration) if duration else -math.inf
        return queued.backoff_expiry

    def is_backing_off(self, queued: QueuedPod, now: float) -> bool:
        """Return whether the pod still backs off: until the first whole second after its expiry."""
        return self.expiry(queued) >= math.floor(now)
