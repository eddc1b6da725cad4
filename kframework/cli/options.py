"""Options shared by several commands, and their parsing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

import typer

from kframework.cli.logs import LoggingFormat, set_format, set_verbosity
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.simulation.source_script import SourceFile

T = TypeVar("T")

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

#: The file name that means stdin.
STDIN = "-"


def parse_duration(text: str) -> float:
    """Read a span of time in seconds from an option: 90s, 1h30m."""
    from kframework.config.duration import Duration

    try:
        return Duration.parse(text)
    except ValueError as error:
        message = f"{str(error).removeprefix('time: ')}; write it as 90s or 1h30m"
        raise typer.BadParameter(message) from error


def parse_positive_duration(text: str) -> float:
    """Parse a time span greater than zero, in seconds."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise typer.BadParameter("must be greater than zero")
    return seconds


class Output(StrEnum):
    """The output forms of a list, other than the plain table."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class WideForm(StrEnum):
    """The output forms of a result, other than the plain one."""

    WIDE = "wide"
    JSON = "json"


Controllers = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Workload controllers to run, in kube-controller-manager's syntax: *,-deployment is all but one.",
    ),
]

Filenames = Annotated[
    list[str],
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        help="Cluster file (YAML or JSON, as kubectl prints it), folder of such files, or - for stdin; repeatable.",
    ),
]

Config = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="KubeSchedulerConfiguration file, or - for stdin; without it, the default profile."
    ),
]

#: Optional cluster files.
Objects = Annotated[
    list[str],
    typer.Option(
        "-f",
        "--filename",
        metavar="FILE",
        default_factory=list,
        show_default=False,
        help="Cluster file, folder of such files, or - for stdin; repeatable.",
    ),
]

Devices = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Give the nodes of the cluster files the devices in this file."),
]

Strict = Annotated[bool, typer.Option("--strict", help="Refuse cluster files that an API server refuses.")]

Port = Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="Port of the fake API; 0 for any free one.")]

WriteKubeconfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write the kubeconfig of the fake API to this file and keep it; without it, to a temporary file.",
    ),
]

DurationOption = Annotated[
    float | None,
    typer.Option(
        "--duration",
        metavar="TIME",
        parser=parse_positive_duration,
        help="Stop after this much virtual time (90s, 1h30m); without it, when nothing changes any more.",
    ),
]

Seed = Annotated[
    int | None,
    typer.Option(metavar="N", help="Random seed, instead of the configuration's."),
]

OutputOption = Annotated[
    Output | None,
    typer.Option("-o", "--output", help="Print a wide table, JSON, YAML or names instead of a table."),
]

SourceOption = Annotated[
    list[str],
    typer.Option(
        "--source",
        metavar="PLUGIN/NAME=FILE",
        default_factory=list,
        show_default=False,
        help="Play the values of a plugin's source from a file instead of fetching them: lines such as"
        " {at: 30, values: {a: 1}}, with the seconds since the start. Repeatable.",
    ),
]

WideOutput = Annotated[
    WideForm | None,
    typer.Option("-o", "--output", help="Print everything, or JSON, instead of the short text."),
]

Verbosity = Annotated[
    int,
    typer.Option(
        "-v",
        "--v",
        metavar="LEVEL",
        min=0,
        show_default=False,
        callback=set_verbosity,
        help="Log to stderr: 0 = warnings (the default), 2 = a line per pod, 4 = plugins, with tracebacks,"
        " 5 = the queue, 10 = every score.",
    ),
]

Logging = Annotated[
    LoggingFormat | None,
    typer.Option(
        "--logging-format",
        show_default=False,
        callback=set_format,
        help="Log format: kube-scheduler's text (the default with -v), or one JSON object per line.",
    ),
]


EmulatedVersion = Annotated[
    str | None,
    typer.Option(metavar="VERSION", help="Minor of Kubernetes to imitate, 1.36 or 1.37; default 1.37."),
]


def emulated_minor(emulated_version: str | None) -> str | None:
    """Return the minor that an option names, None if it is not given; raises BadParameter."""
    from kframework.values.feature_gates import parse_emulated_version

    return _parse(parse_emulated_version, emulated_version, "--emulated-version")


FeatureGateSettings = Annotated[
    list[str],
    typer.Option(
        "--feature-gates",
        metavar="NAME=BOOL,...",
        default_factory=list,
        show_default=False,
        help="Feature gates of Kubernetes to turn on or off; repeatable.",
    ),
]


def parse_gates(settings: list[str]) -> dict[str, bool] | None:
    """Parse settings of feature gates, None if there are none; raises BadParameter."""
    from kframework.values.feature_gates import parse_feature_gates

    return _parse(parse_feature_gates, ",".join(settings) or None, "--feature-gates")


@dataclass(frozen=True, kw_only=True)
class VersionOptions:
    """Options that choose the kube-scheduler to imitate; they override the configuration."""

    emulated_version: EmulatedVersion = None
    feature_gates: FeatureGateSettings

    def override(self, configuration: Configuration) -> Configuration:
        """Return the configuration with these options, and report gates without an effect; raises ConfigError."""
        from kframework.config.load import gate_warnings, with_overrides

        gates = parse_gates(self.feature_gates)
        fields = {
            "emulated_version": emulated_minor(self.emulated_version),
            "feature_gates": None if gates is None else {**configuration.options.feature_gates, **gates},
        }
        overridden = with_overrides(configuration, leader_election={}, client_connection={}, options=fields)
        if gates is not None:
            for warning in gate_warnings(overridden.options):
                notify_user("notice", warning)
        return overridden


def _parse(parse: Callable[[str], T], text: str | None, option: str) -> T | None:
    """Parse the value of an option, None if it is not given; raises BadParameter."""
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"'{option}'") from error


Dev = Annotated[
    bool,
    typer.Option(
        "--dev",
        help="For plugin authors: fail if a plugin writes to a pod, a node or another object, and name the line.",
    ),
]


def group(help: str) -> typer.Typer:
    """Return an empty group of commands, which shows its help if called without one."""
    commands = typer.Typer(help=help, context_settings=HELP_OPTIONS, rich_markup_mode=None)
    commands.callback(invoke_without_command=True)(show_help)
    return commands


def show_help(context: typer.Context) -> None:
    """Show the help of a group that is called without a command."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def refuse_overwriting(read: Iterable[str], **written: str | None) -> None:
    """Reject writing a file that is read, or one file twice; `written` is the file of each option, by name."""
    taken = {Path(file).resolve(): "is an input" for file in read}
    for name, file in written.items():
        if file is None:
            continue
        path = Path(file).resolve()
        if path in taken:
            raise typer.BadParameter(f"{file} {taken[path]}; name another file", param_hint=f"'--{name}'")
        taken[path] = f"is written by --{name}"


def refuse_reading_stdin_twice(filenames: Iterable[str], config: str | None) -> None:
    """Refuse that a configuration comes from stdin if cluster files do."""
    if config == STDIN and STDIN in filenames:
        raise typer.BadParameter("stdin is already read by -f -", param_hint="'--config'")


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the records among a command's parameters to their options, in place."""
    given = inspect.signature(command, eval_str=True).parameters
    records = {
        name: parameter.annotation
        for name, parameter in given.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @wraps(command)
    def unfold(**arguments: object) -> None:
        for name, record in records.items():
            arguments[name] = record(**{field.name: arguments.pop(field.name) for field in fields(record)})
        command(**arguments)

    options: list[inspect.Parameter] = []
    for name, parameter in given.items():
        if name in records:
            types = get_type_hints(records[name], include_extras=True)
            options += [_option(each.name, types[each.name], _default(each)) for each in fields(records[name])]
        else:
            options.append(_option(name, parameter.annotation, parameter.default))
    unfold.__annotations__ = {option.name: option.annotation for option in options}
    unfold.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]  # read by typer
    return unfold


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _default(field: Field[object]) -> object:
    """Return a field's default; none for a list, whose option has its own."""
    return inspect.Parameter.empty if field.default is MISSING else field.default


def read_source_file(option: str) -> SourceFile:
    """Read the file of an option; raises typer.BadParameter for another form, and InputError for a faulty file."""
    from kframework.simulation.source_script import SourceFile

    source, _, file = option.partition("=")
    plugin, _, name = source.partition("/")
    if not (plugin and name and file):
        raise typer.BadParameter(f"{option!r} is not PLUGIN/NAME=FILE", param_hint="'--source'")
    return SourceFile(plugin, name, file)
