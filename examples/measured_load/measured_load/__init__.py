"""MeasuredLoad: nodes that Prometheus says are idle are preferred."""

from __future__ import annotations

from measured_load.load import MeasuredLoad, MeasuredLoadArgs

__all__ = ["MeasuredLoad", "MeasuredLoadArgs"]
