"""The options of the commands that can record what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from kframework.core.cycle.records import Observer
    from kframework.observe.recording.writer import Recorder
    from kframework.scheduler.scheduler import EngineFactory


#: The minimum size in bytes: four smaller parts would not hold their initial state and any records.
_LEAST = 1 << 20


def size(text: str) -> int:
    """Read a number of bytes from an option: 64Mi, 1G."""
    from kframework.objects.quantity import QuantityError, value

    try:
        found = value(text)
    except QuantityError as error:
        raise typer.BadParameter(str(error)) from error
    if found < _LEAST:
        raise typer.BadParameter("must be at least 1Mi")
    return found


Record = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Record all messages in this file, for kframework replay and explain --recording."
    ),
]

RecordLimit = Annotated[
    int | None,
    typer.Option(
        metavar="SIZE", parser=size, help="Maximum size of FILE, FILE.1, FILE.2 and FILE.3 together; default 256Mi."
    ),
]


RecordAnnotations = Annotated[
    list[str],
    typer.Option(
        metavar="KEY",
        default_factory=list,
        show_default=False,
        help="Also record the values of these annotations, for plugins that read them; example.com/* for a prefix;"
        " repeatable.",
    ),
]


class RecordingOptions(NamedTuple):
    """The arguments of a recorded scheduler: its engine factory and observers."""

    engine: EngineFactory
    observers: list[Observer]


def with_read_only(recorded: RecordingOptions) -> RecordingOptions:
    """Return the same with an engine whose plugins get read-only objects."""
    from kframework.scheduler.read_only import with_read_only_objects

    return recorded._replace(engine=with_read_only_objects(recorded.engine))


@contextmanager
def recording(file: str | None, limit: int | None, annotations: Sequence[str] = ()) -> Iterator[RecordingOptions]:
    """Record into a file while inside, if one is given; of annotations those that go in by themselves, and these."""
    from kframework.core.pod_engine import PodEngine
    from kframework.observe.recording.pod_engine import recording_pod_engine_factory

    with recorder_to(file, limit, annotations) as recorder:
        if recorder is None:
            yield RecordingOptions(PodEngine.of, [])
        else:
            yield RecordingOptions(recording_pod_engine_factory(recorder), [recorder])


@contextmanager
def recorder_to(
    file: str | None, limit: int | None, annotations: Sequence[str] = (), *, read: Sequence[str] = ()
) -> Iterator[Recorder | None]:
    """Open a recorder to a file while inside, None without a file; `read` are annotations that the engine reads.

    Recorded annotations are the standard ones, those in `read`, and `annotations`.
    """
    from pathlib import Path

    from kframework.observe.recording.annotations import KEPT_ANNOTATIONS
    from kframework.observe.recording.file import MAX_BYTES
    from kframework.observe.recording.writer import Recorder

    if file is None:
        if limit is not None:
            raise typer.BadParameter("only with --record", param_hint="'--record-limit'")
        if annotations:
            raise typer.BadParameter("only with --record", param_hint="'--record-annotations'")
        yield None
        return
    recorder = Recorder(Path(file), limit=limit or MAX_BYTES, annotations=(*KEPT_ANNOTATIONS, *read, *annotations))
    try:
        yield recorder
    finally:
        recorder.close()
