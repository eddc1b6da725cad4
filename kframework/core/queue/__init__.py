"""The scheduling queue: which pod is tried next, and what those that failed wait for."""

from __future__ import annotations

from kframework.core.queue.scheduling_queue import QueueRules, SchedulingQueue

__all__ = ["QueueRules", "SchedulingQueue"]
