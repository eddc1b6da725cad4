"""Recording by the commands that schedule, and its options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from kframework.core.cycle.records import Observer
    from kframework.observe.recording.writer import Recorder
    from kframework.scheduler.scheduler import EngineFactory


#: The minimum size in bytes: four smaller parts would not hold their initial state and any records.
_MIN_SIZE = 1 << 20


def parse_size(text: str) -> int:
    """Read a number of bytes from an option: 64Mi, 1G."""
    from kframework.objects.quantity import QuantityError, value

    try:
        bytes_ = value(text)
    except QuantityError as error:
        raise typer.BadParameter(str(error)) from error
    if bytes_ < _MIN_SIZE:
        raise typer.BadParameter("must be at least 1Mi")
    return bytes_


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """The options of a recording."""

    record: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Record all messages in this file, for kframework replay and explain --recording."
        ),
    ] = None
    record_limit: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE",
            parser=parse_size,
            help="Maximum size of FILE, FILE.1, FILE.2 and FILE.3 together; default 256Mi.",
        ),
    ] = None
    record_annotations: Annotated[
        list[str],
        typer.Option(
            metavar="KEY",
            default_factory=list,
            show_default=False,
            help="Also record the values of these annotations, for plugins that read them; example.com/* for a prefix;"
            " repeatable.",
        ),
    ] = field(default_factory=list)


class RecordedScheduler(NamedTuple):
    """The arguments of a recorded scheduler: its engine factory and observers."""

    engine: EngineFactory
    observers: list[Observer]


def with_read_only(recorded: RecordedScheduler) -> RecordedScheduler:
    """Return the same with an engine whose plugins get read-only objects."""
    from kframework.scheduler.read_only import with_read_only_objects

    return recorded._replace(engine=with_read_only_objects(recorded.engine))


@contextmanager
def recording(options: RecordOptions) -> Iterator[RecordedScheduler]:
    """Record the pod engine while inside, if a file is given."""
    from kframework.core.pod_engine import PodEngine

    with open_recorder(options) as recorder:
        if recorder is None:
            yield RecordedScheduler(PodEngine.from_configuration, [])
        else:
            from kframework.observe.recording.pod_engine import recording_pod_engine_factory

            yield RecordedScheduler(recording_pod_engine_factory(recorder), [recorder])


@contextmanager
def open_recorder(options: RecordOptions, read: Sequence[str] = ()) -> Iterator[Recorder | None]:
    """Open a recorder while inside, None without a file; `read` are annotations that the engine reads.

    Recorded annotations are the standard ones, those in `read`, and those of the options.
    """
    limit, annotations = options.record_limit, options.record_annotations
    if options.record is None:
        for option, value in {"--record-limit": limit, "--record-annotations": annotations}.items():
            if value:
                raise typer.BadParameter("only with --record", param_hint=f"'{option}'")
        yield None
        return
    from pathlib import Path

    from kframework.observe.recording.annotations import KEPT_ANNOTATIONS
    from kframework.observe.recording.file import MAX_BYTES
    from kframework.observe.recording.writer import Recorder

    kept = (*KEPT_ANNOTATIONS, *read, *annotations)
    recorder = Recorder(Path(options.record), limit=limit or MAX_BYTES, annotations=kept)
    try:
        yield recorder
    finally:
        recorder.close()
