"""`kframework replay`: check that a scheduler decides as recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import Logging, Verbosity, WideForm, refuse_overwriting
from kframework.cli.replay_results import print_differences, report_versions, summarise_replay
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.core.runtime.registry import Registry
    from kframework.observe.recording.diff import ReplayResult
    from kframework.observe.recording.reader import RecordingReader


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Recording, written by kframework run or simulate with --record.")
    ],
    plugin: PluginOption,
    output: Annotated[
        WideForm | None, typer.Option("-o", "--output", help="Print the differences as a wide table, or as JSON.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the final state to this file, as an HTML page.")
    ] = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Replay a recording, and compare the decisions.

    They must be the same, or the exit code is 1. For another configuration there is kframework compare --recording.
    """
    from kframework.core.runtime.registry import Registry
    from kframework.observe.recording.reader import RecordingReader

    refuse_overwriting([file], report=report)
    recorded = RecordingReader(Path(file))
    if recorded.header.engine:
        for option, value in {"report": report, "plugin": plugin}.items():
            if value:
                why = f"only for recordings of the pod engine; this one is of the engine {recorded.header.engine!r}"
                raise typer.BadParameter(why, param_hint=f"'--{option}'")
    report_versions(recorded)
    registry = Registry.with_plugins(*named_plugins(plugin))
    result = _replay(recorded, registry)
    print_differences(result, output)
    summarise_replay(result, "the recorded configuration")
    if report is not None:
        _report(Path(file), registry, report)
    if result.differences:
        raise typer.Exit(1)


def _replay(recorded: RecordingReader, registry: Registry) -> ReplayResult:
    """Replay strictly, or attempt by attempt if the beginning is missing."""
    from kframework.observe.recording.reconsider import reconsider
    from kframework.observe.recording.replay import replay

    if recorded.header.part > 1:
        return reconsider(recorded.file, registry=registry)
    result = replay(recorded.file, registry)
    if result.difference is not None:
        notify_user("error", str(result.difference))
    return result


def _report(file: Path, registry: Registry, page: str) -> None:
    from kframework.explain.view import PodEngineView
    from kframework.observe.history import History
    from kframework.observe.recording.replay import follow
    from kframework.observe.report import report

    history = History()
    replay = follow(file, registry, [history])
    replay.replay_all()
    text = report(PodEngineView(replay.engine, history), title=f"Recording {file}")
    Path(page).write_text(text, encoding="utf-8")
