"""A span as engines tell it of what they have done, with the spans of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from opentelemetry.trace import SpanContext, Status, StatusCode

from kframework.observe.tracing.traces import UNSET, Attributes, Traces, context


@dataclass(frozen=True)
class Span:
    """Something that took time: it began at `start`, in nanoseconds since 1970, and went on for as many as it `took`.

    `failure` says what broke; "" where nothing did.
    """

    name: str
    start: int
    took: int
    attributes: Attributes = field(default_factory=dict)
    parts: tuple[Span, ...] = ()
    failure: str = ""

    def end(self, traces: Traces, trace: int) -> None:
        """Hand on a whole trace, of which this is the root."""
        self._end(traces, trace, count(), None)

    def _end(self, traces: Traces, trace: int, places: Iterator[int], parent: SpanContext | None) -> None:
        own = context(trace, next(places))
        for part in self.parts:
            part._end(traces, trace, places, own)
        status = Status(StatusCode.ERROR, self.failure) if self.failure else UNSET
        traces.end(self.name, own, parent, (self.start, self.start + self.took), self.attributes, status)
