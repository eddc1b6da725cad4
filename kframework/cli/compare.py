"""`kframework compare`: what another configuration would change, on cluster files or on a recording."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kframework.cli.ask_scheduler import DEFAULT_SCHEDULER, CertificateAuthority
from kframework.cli.live_shadows import print_shadows
from kframework.cli.named_plugins import PluginOption, named_plugins
from kframework.cli.options import (
    STDIN,
    Devices,
    DurationOption,
    Logging,
    Objects,
    Seed,
    Verbosity,
    VersionOptions,
    WideForm,
    expand_options,
    refuse_overwriting,
)
from kframework.cli.printing import print_json, print_lines, print_table
from kframework.cli.replay_results import print_differences, report_unrepeated, report_versions, summarise_replay
from kframework.errors import escape_text
from kframework.simulation.inputs import load_simulation_configuration, read_cluster, report_ignored
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.framework.plugin import Plugin
    from kframework.observe.recording.reader import RecordingReader
    from kframework.simulation.comparison.result import ConfigurationComparison


class ComparisonForm(StrEnum):
    """The output forms of a comparison, other than the plain tables."""

    WIDE = "wide"
    JSON = "json"
    MARKDOWN = "markdown"


class MoveLimit(NamedTuple):
    """How many pods may move: a number, or a share of all."""

    text: str
    pods: int | None
    share: float

    def is_exceeded(self, result: ConfigurationComparison) -> bool:
        """Return whether more pods move."""
        return result.moved > (self.share * result.pods if self.pods is None else self.pods)


def parse_limit(text: str) -> MoveLimit:
    """Read a limit from an option: `1%` of the pods, or their number."""
    number, is_share = text.removesuffix("%"), text.endswith("%")
    try:
        value = float(number) if is_share else int(number)
    except ValueError:
        value = -1
    if not 0 <= value <= (100 if is_share else sys.maxsize):
        raise typer.BadParameter("write a share such as 1%, or a number of pods")
    return MoveLimit(text, None if is_share else int(value), value / 100)


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """Options of the simulations of cluster files."""

    devices: Devices = None
    duration: DurationOption = None
    seed: Seed = None
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", min=1, help="Simulate with N seeds, and say which differences exceed chance."
        ),
    ] = 1

    def refuse(self, version: VersionOptions) -> None:
        """Refuse options without an effect on a recording."""
        given = {
            "devices": self.devices,
            "duration": self.duration,
            "seed": self.seed is not None,
            "seeds": self.seeds > 1,
            "emulated-version": version.emulated_version,
            "feature-gates": version.feature_gates,
        }
        for option, value in given.items():
            if value:
                raise typer.BadParameter("only with -f: a recording has its own", param_hint=f"'--{option}'")


@expand_options
def command(
    filenames: Objects,
    plugin: PluginOption,
    *,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="The new configuration.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="The configuration to compare it with; default: the recorded one, or with -f the default profile.",
        ),
    ] = None,
    recording: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Decide every attempt of this recording again, instead of simulating."),
    ] = None,
    live: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"Ask a running scheduler for its shadows' differences: {DEFAULT_SCHEDULER}."),
    ] = None,
    certificate_authority: CertificateAuthority = None,
    simulation: SimulationOptions,
    version: VersionOptions,
    output: Annotated[
        ComparisonForm | None,
        typer.Option("-o", "--output", help="Print more columns, JSON, or Markdown for a pull request."),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the comparison to this file, as an HTML page with both clusters."),
    ] = None,
    fail_over: Annotated[
        MoveLimit | None,
        typer.Option(metavar="LIMIT", parser=parse_limit, help="Exit with 1 if more pods move: 1%, or a number."),
    ] = None,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Compare two configurations: which pods go elsewhere, and why.

    Simulates the same arrivals under both, or decides every attempt of a recording by both. Prints the pods that
    differ with the plugin that decided, and the measures of both simulations. With --live, prints what the shadow
    profiles of a running scheduler have decided otherwise.
    """
    if live is not None:
        print_shadows(live, certificate_authority, as_json=output is ComparisonForm.JSON)
        return
    if config is None:
        raise typer.BadParameter(
            "name the new configuration, or a running scheduler with --live", param_hint="'--config'"
        )
    if bool(filenames) == (recording is not None):
        raise typer.BadParameter("name cluster files with -f, or a --recording", param_hint="'-f'")
    if [*filenames, config, baseline].count(STDIN) > 1:
        raise typer.BadParameter("stdin can be read only once", param_hint="'-'")
    refuse_overwriting([*filenames, config, *filter(None, (baseline, recording, simulation.devices))], report=report)
    plugins = named_plugins(plugin)
    recorded = None
    if recording is not None:
        simulation.refuse(version)
        recorded = _open_recording(recording)
        if recorded.header.engine:
            pods_only = {"baseline": baseline, "fail_over": fail_over, "report": report, "plugin": plugin}
            _compare_engine_records(recorded, config, output, pods_only)
            return
    with ExitStack() as closing:
        # Opened first, so that nothing is compared whose report cannot be written.
        page = closing.enter_context(open(report, "w", encoding="utf-8")) if report is not None else None
        if recorded is None:
            old, new = (version.override(load_simulation_configuration(each, plugins)) for each in (baseline, config))
            result = _compare_files(filenames, old, new, simulation, plugins)
        else:
            result = _compare_recording(recorded.file, config, baseline, plugins)
        default = "the default profile" if recorded is None else "the recorded configuration"
        result = _with_names(result, baseline or default, config, filenames or [recording or ""])
        if page is not None:
            page.write(_page(result))
    _print(result, output)
    _summarise(result)
    if fail_over is not None and fail_over.is_exceeded(result):
        notify_user("error", f"{result.moved:,} of {result.pods:,} pods move, which is more than {fail_over.text}")
        raise typer.Exit(1)


def _open_recording(file: str) -> RecordingReader:
    from kframework.observe.recording.reader import RecordingReader

    recorded = RecordingReader(Path(file))
    report_versions(recorded)
    return recorded


def _with_names(result: ConfigurationComparison, baseline: str, new: str, source: list[str]) -> ConfigurationComparison:
    import msgspec

    return msgspec.structs.replace(result, baseline=baseline, new=new, source=tuple(source))


def _page(result: ConfigurationComparison) -> str:
    from kframework.simulation.comparison.page import comparison_page

    return comparison_page(result)


def _compare_files(
    filenames: list[str],
    baseline: Configuration,
    new: Configuration,
    options: SimulationOptions,
    plugins: list[type[Plugin]],
) -> ConfigurationComparison:
    from kframework.simulation.comparison.clusters import compare

    manifest = read_cluster(filenames, new, plugins, devices=options.devices)
    report_ignored(manifest, new, plugins)
    settings = {"baseline": baseline, "new": new}
    compared = compare(
        manifest.objects, settings, plugins=plugins, duration=options.duration, seed=options.seed, seeds=options.seeds
    )
    return compared.result("new")


def _compare_recording(
    file: Path, config: str, baseline: str | None, plugins: list[type[Plugin]]
) -> ConfigurationComparison:
    from kframework.core.runtime.registry import Registry
    from kframework.simulation.comparison.recordings import compare_recording

    old = None if baseline is None else load_simulation_configuration(baseline, plugins)
    new = load_simulation_configuration(config, plugins)
    result = compare_recording(file, new, old, Registry.with_plugins(*plugins))
    if result.not_repeated is not None:
        report_unrepeated(result.not_repeated, cut_off=result.cut_off)
    return result


def _compare_engine_records(
    recorded: RecordingReader, config: str, output: ComparisonForm | None, pods_only: Mapping[str, object]
) -> None:
    """Print how the records of another engine, such as sessions, differ under a configuration of its kind."""
    from kframework.observe.recording.engines import kind_of_recording

    engine = recorded.header.engine
    for option, value in {**pods_only, "output": output is ComparisonForm.MARKDOWN}.items():
        if value:
            hint = f"'--{option.replace('_', '-')}'"
            raise typer.BadParameter(
                f"only for recordings of the pod engine; this one is of the engine {engine!r}", param_hint=hint
            )
    result = kind_of_recording(recorded).reconsider(recorded.file, config)
    print_differences(result, None if output is None else WideForm(output))
    summarise_replay(result, config)


def _print(result: ConfigurationComparison, output: ComparisonForm | None) -> None:
    from kframework.simulation.comparison.text import (
        MEASURE_HEADERS,
        POD_HEADERS,
        WIDE_POD_HEADERS,
        format_markdown,
        measure_rows,
        pod_rows,
        wide_pod_rows,
    )

    if output is ComparisonForm.JSON:
        print_json(result)
        return
    if output is ComparisonForm.MARKDOWN:
        print_lines(*format_markdown(result).splitlines())
        return
    if output is ComparisonForm.WIDE and result.differences:
        print_table(WIDE_POD_HEADERS, [*wide_pod_rows(result)])
    elif result.differences:
        print_table(POD_HEADERS, [*pod_rows(result)])
    if result.measures:
        if result.differences:
            print_lines("")
        print_table(MEASURE_HEADERS, [*measure_rows(result)])


def _summarise(result: ConfigurationComparison) -> None:
    """Print the headline, as the last line."""
    from kframework.simulation.comparison.text import headline, measures_note

    sys.stdout.flush()  # so that the summary is last if both streams have one destination
    if note := measures_note(result):
        notify_user("notice", note)
    sys.stderr.write(f"{escape_text(headline(result))}\n")
