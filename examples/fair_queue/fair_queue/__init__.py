"""FairQueue: no namespace waits behind all that another has submitted."""

from __future__ import annotations

from fair_queue.queue import FairQueue, FairQueueArgs

__all__ = ["FairQueue", "FairQueueArgs"]
