"""How long a pod rests after a failed attempt: kube-scheduler's exponential backoff in windows of one second."""

from __future__ import annotations

import math

import msgspec

from kframework.state.queued_pod import QueuedPod


class Backoff(msgspec.Struct, frozen=True):
    """The backoff of the configuration, in seconds; a `maximum` of 0 turns it off."""

    initial: float = 1.0
    maximum: float = 10.0

    def duration(self, queued: QueuedPod) -> float:
        """Return the seconds a pod rests: doubled for each failure, errors in a row before rejections."""
        failures = queued.consecutive_errors or queued.unschedulable_count
        if not failures or not self.maximum:
            return 0.0
        # 2**63 seconds exceed any maximum; larger powers would only cost time.
        return min(self.initial * 2.0 ** min(failures - 1, 63), self.maximum)

    def expiry(self, queued: QueuedPod) -> float:
        """Return the whole second in which the pod's rest ends, worked out once per failure."""
        if queued.backoff_expiry is None:
            rest = self.duration(queued)
            queued.backoff_expiry = math.floor(queued.timestamp + rest) if rest else -math.inf
        return queued.backoff_expiry

    def resting(self, queued: QueuedPod, now: float) -> bool:
        """Return whether the pod still rests: until the first whole second after its expiry."""
        return self.expiry(queued) >= math.floor(now)
