"""The traces of one run: what they are known by, and how their spans are handed on.

Ids are derived from what a trace is of, so that what comes later finds its trace though nothing is kept. The SDK is
imported when a Traces is made; its tracer is not used, as it draws ids and asks a sampler for each span, at five times
the cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from kframework._version import __version__
from kframework.clock import Seeds
from kframework.observe.tracing.export import resource

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

#: What is said of a span, by the name of the attribute.
Attributes = Mapping[str, str | int | float | tuple[str, ...]]

UNSET = Status(StatusCode.UNSET)

_SPAN_ID = (1 << 64) - 1
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Traces:
    """The traces of one run, whose spans a processor gets.

    Their ids are those of this run alone, unless there is a `seed`: then every run with it has the same.
    """

    def __init__(self, processor: SpanProcessor, seed: int | None) -> None:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._run = secrets.randbits(64) if seed is None else Seeds(seed).generator("traces").getrandbits(64)
        self._processor = processor
        self._resource = resource()
        self._scope = InstrumentationScope("kframework", __version__)
        self._span = ReadableSpan

    def trace(self, of: int | str) -> int:
        """Return the number of a trace, of an attempt by its number or of something that goes by a name.

        It is random to those who, as the standard says, sample by its digits.
        """
        return int.from_bytes(blake2b(f"{self._run}/{of}".encode(), digest_size=16).digest(), "big")

    def end(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        moments: tuple[int, int],
        attributes: Attributes | None = None,
        status: Status = UNSET,
        links: Sequence[Link] = (),
    ) -> None:
        """Hand on a span, which has ended: here everything has."""
        span = self._span(
            name,
            context,
            parent,
            self._resource,
            attributes or {},
            links=links,
            status=status,
            start_time=moments[0],
            end_time=moments[1],
            instrumentation_scope=self._scope,
        )
        self._processor.on_end(span)

    def close(self) -> None:
        """Export what is left; waits for the exporter."""
        self._processor.shutdown()


def context(trace: int, place: int) -> SpanContext:
    """Return what a span at this place of its trace is known by."""
    return SpanContext(trace, (trace + place) & _SPAN_ID, is_remote=False, trace_flags=_SAMPLED)
