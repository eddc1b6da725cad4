"""`kframework explain`: why a pod waits, or why it is where it is, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.ask_scheduler import DEFAULT_SCHEDULER, CertificateAuthority, ask_scheduler
from kframework.cli.named_plugins import PluginOption, named_engine, named_plugins
from kframework.cli.options import (
    Devices,
    SourceOption,
    Verbosity,
    VersionOptions,
    WideForm,
    WideOutput,
    expand_options,
    read_source_file,
)
from kframework.cli.printing import print_json
from kframework.simulation.inputs import load_simulation_configuration, read_admitted, report_ignored, report_rejected
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.explain.explanation import Explanation
    from kframework.framework.plugin import Plugin
    from kframework.observe.web.view import EngineExplanation


@expand_options
def command(
    pod: Annotated[
        str,
        typer.Argument(metavar="POD|pod/NAME", help="The pod, or a job if the engine has jobs; also NAMESPACE/NAME."),
    ],
    plugin: PluginOption,
    source: SourceOption,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of the pod; without it, default.")
    ] = None,
    filenames: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="Cluster file to simulate first, folder of such files, or - for stdin; repeatable.",
        ),
    ] = None,
    devices: Devices = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="URL", help=f"Address of the scheduler to ask; default {DEFAULT_SCHEDULER}."),
    ] = None,
    certificate_authority: CertificateAuthority = None,
    recording: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Recording to replay first, written by kframework run or simulate with --record."
        ),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Replay only to just before the scheduler's Nth attempt."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="KubeSchedulerConfiguration for -f; without it, the default profile."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Engine to schedule -f with, such as batch; --config is then its configuration."
        ),
    ] = None,
    output: WideOutput = None,
    *,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Explain why a pod waits, and what would help.

    Prints the answer of each plugin for each node, whether preemption helps, and which events requeue the pod; for a
    bound pod, why it is on its node.

    Asks a running scheduler, or works offline on cluster files or a recording. Changes nothing.
    """
    namespace, name = _parse_pod(pod, namespace)
    sources = {"--filename": filenames, "--scheduler": scheduler, "--recording": recording}
    given = [name for name, value in sources.items() if value]
    if len(given) > 1:
        raise typer.BadParameter("give only one of them", param_hint=" and ".join(given))
    offline = filenames or recording
    for option, is_misplaced, why in (
        ("--certificate-authority", certificate_authority is not None and offline, "only with --scheduler"),
        ("--attempt", attempt is not None and recording is None, "only with --recording"),
        ("--config", config is not None and not filenames, "only with -f; a scheduler or recording has its own"),
        ("--feature-gates", version.feature_gates and not filenames, "only with -f"),
        ("--emulated-version", version.emulated_version is not None and not filenames, "only with -f"),
        ("--devices", devices is not None and not filenames, "only with -f"),
        ("--plugin", plugin and not offline, "only with -f or --recording; a scheduler has its own"),
        ("--source", source and (engine is not None or not filenames), "only with -f, for the plugins of a profile"),
        ("--engine", engine is not None and not filenames, "only with -f; a scheduler or recording names its own"),
        ("--engine", engine is not None and plugin, "has its own plugins; remove --plugin"),
    ):
        if is_misplaced:
            raise typer.BadParameter(why, param_hint=f"'{option}'")
    plugins = named_plugins(plugin)
    explanation: Explanation | EngineExplanation
    if filenames and engine is not None:
        explanation = named_engine(engine).explain_files(filenames, config, devices, namespace, name)
    elif filenames:
        explanation = _explain_files(filenames, devices, config, version, plugins, source, f"{namespace}/{name}")
    elif recording is not None:
        explanation = _explain_recording(recording, plugins, namespace, name, attempt)
    else:
        explanation = _fetch_explanation(scheduler or DEFAULT_SCHEDULER, certificate_authority, namespace, name)
    _print(explanation, output)


def _print(explanation: Explanation | EngineExplanation, output: WideForm | None) -> None:
    from kframework.explain.text import format_explanation
    from kframework.observe.web.view import EngineExplanation

    wide = output is WideForm.WIDE
    if output is WideForm.JSON:
        print_json(explanation)
    elif isinstance(explanation, EngineExplanation):
        typer.echo(explanation.wide if wide else explanation.text, nl=False)
    else:
        typer.echo(format_explanation(explanation, wide=wide), nl=False)


def _parse_pod(pod: str, namespace: str | None) -> tuple[str, str]:
    before, slash, name = pod.rpartition("/")
    if not name or "/" in before or (slash and not before):
        raise typer.BadParameter("write POD, pod/NAME or NAMESPACE/NAME", param_hint="'POD'")
    if not slash or before in ("pod", "pods", "po"):
        return namespace or "default", name
    if namespace is not None:
        raise typer.BadParameter(f"names the namespace {before}; remove -n", param_hint="'POD'")
    return before, name


def _explain_files(
    filenames: list[str],
    devices: str | None,
    config: str | None,
    version: VersionOptions,
    plugins: Sequence[type[Plugin]],
    source: Sequence[str],
    pod: str,
) -> Explanation:
    from kframework.simulation.controllers import STANDARD_CONTROLLERS
    from kframework.simulation.simulation import Simulation

    configuration = version.override(load_simulation_configuration(config, plugins))
    manifest, rejected = read_admitted(filenames, configuration, plugins, devices=devices)
    report_rejected(rejected)
    report_ignored(manifest, configuration, plugins)
    objects = manifest.objects
    sources = list(map(read_source_file, source))
    controllers = [*STANDARD_CONTROLLERS, *(each.create_controller for each in sources)]
    with Simulation(objects, configuration, plugins=plugins, controllers=controllers) as simulation:
        for each in sources:
            each.replace_source(simulation.scheduler.profiles)
        explained = simulation.run_and_explain(pod)
    for notice in simulation.result.notices:
        notify_user("notice", notice)
    return explained.explanation


def _explain_recording(
    file: str, plugins: Sequence[type[Plugin]], namespace: str, name: str, attempt: int | None
) -> Explanation | EngineExplanation:
    from pathlib import Path

    from kframework.observe.recording.engines import kind_of_recording
    from kframework.observe.recording.reader import RecordingReader
    from kframework.simulation.recording import Recording

    recording = Recording(file, plugins=plugins)
    recorded = RecordingReader(Path(file))
    if not recorded.header.engine:
        return recording.explain(f"{namespace}/{name}", attempt=attempt).explanation
    if attempt is not None:
        raise typer.BadParameter(
            f"only for recordings of the pod engine; this one is of {recorded.header.engine}", param_hint="'--attempt'"
        )
    return recording.explain_by(kind_of_recording(recorded), namespace, name)


def _fetch_explanation(
    url: str, certificate_authority: str | None, namespace: str, name: str
) -> Explanation | EngineExplanation:
    from urllib.parse import urlencode

    import msgspec

    from kframework.errors import ExplainError
    from kframework.explain.explanation import decode_explanation

    answer = ask_scheduler(url, certificate_authority, f"/explain?{urlencode({'pod': f'{namespace}/{name}'})}")
    try:
        return decode_explanation(answer)
    except msgspec.DecodeError as error:
        raise ExplainError(f"{url} is not a scheduler of this version: {error}") from error
