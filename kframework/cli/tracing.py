"""Tracing of the commands that schedule: by the configuration, and of a simulation into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.observe.tracing.spans import Tracing

#: The file name that means stderr.
CONSOLE = "-"

Trace = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write OpenTelemetry spans to this file, one per line; - for stderr.")
]


@contextmanager
def trace_as_configured(configuration: Configuration, seed: int | None = None) -> Iterator[Tracing | None]:
    """Trace inside as configured; the ids are derived from the seed, if there is one."""
    options, tracing = configuration.options.tracing, None
    if options.exporter != "none":
        from kframework.observe.tracing.spans import Tracing

        tracing = Tracing.from_options(options, seed=seed)
    try:
        yield tracing
    finally:
        if tracing is not None:
            tracing.close()


@contextmanager
def traced_to(trace: str | None, configuration: Configuration) -> Iterator[Tracing | None]:
    """Trace a simulation into a file, every attempt unless configured otherwise; without a file as configured."""
    seed = configuration.options.seed
    with ExitStack() as closing:
        if trace is None:
            yield closing.enter_context(trace_as_configured(configuration, seed))
            return
        from kframework.observe.tracing.spans import SAMPLE_ALL, Tracing

        rate = configuration.options.tracing.sampling_rate_per_million or SAMPLE_ALL
        stream = sys.stderr if trace == CONSOLE else closing.enter_context(open(trace, "w", encoding="utf-8"))
        tracing = Tracing.to_stream(stream, rate_per_million=rate, seed=seed)
        closing.callback(tracing.close)
        yield tracing
