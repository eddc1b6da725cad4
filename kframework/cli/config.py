"""`kframework config`: check a configuration, show the effective one, and print its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kframework.cli.named_plugins import PluginOption, named_engine, named_plugins
from kframework.cli.options import Verbosity, VersionOptions, expand_options, group
from kframework.cli.printing import DataForm, print_answer, print_lines
from kframework.cli.process import configured_kubeconfig
from kframework.cli.tracing import trace_as_configured
from kframework.simulation.inputs import load_simulation_configuration
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.cli.answers import ConfigurationCheck
    from kframework.config.configuration import Configuration
    from kframework.config.models import ExtenderSettings
    from kframework.core.runtime.profiles import Profiles
    from kframework.errors import ConfigError
    from kframework.framework.plugin import Plugin
    from kframework.scheduler.extender import Extender

app: typer.Typer = group("Check, show and describe configurations.")


@app.command()
@expand_options
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Configuration file, or - for stdin; repeatable.")],
    plugin: PluginOption,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="Engine whose configurations these are, such as batch.")
    ] = None,
    output: Annotated[
        DataForm | None, typer.Option("-o", "--output", help="Print the errors as JSON or YAML, instead of lines.")
    ] = None,
    *,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Check configurations as the scheduler does at start.

    Checks fields, plugins and their args, the exporter of traces, and the files that a configuration names: those that
    are not on this machine are warnings. Prints a line per error.
    """
    from kframework.errors import collect_errors, raise_collected

    plugins = named_plugins(plugin)
    checked: dict[str, list[ConfigError]] = {}
    for file in files:
        with collect_errors(checked.setdefault(file, [])):
            if engine is not None:
                for warning in named_engine(engine).check(file):
                    notify_user("warning", warning)
            else:
                _check(version.override(load_simulation_configuration(file, plugins)), plugins)
            if output is None:
                print_lines(f"{file}: ok")
    if output is None:
        raise_collected([error for errors in checked.values() for error in errors])
    else:
        print_answer(output, _describe(checked))
        raise typer.Exit(1 if any(checked.values()) else 0)


def _describe(checked: Mapping[str, Sequence[ConfigError]]) -> ConfigurationCheck:
    from kframework.cli.answers import CheckedFile, ConfigurationCheck, ConfigurationProblem

    return ConfigurationCheck(
        files=tuple(
            CheckedFile(
                file=file,
                ok=not errors,
                errors=tuple(
                    ConfigurationProblem(message=error.message, path=error.path, line=error.line) for error in errors
                ),
            )
            for file, errors in checked.items()
        )
    )


def _check(configuration: Configuration, plugins: Sequence[type[Plugin]]) -> None:
    from kframework.errors import ConfigError

    for notice in compile_profiles(configuration, plugins).warnings:
        notify_user("notice", notice)
    with trace_as_configured(configuration):  # raises if its exporter is not installed
        pass
    try:
        configured_kubeconfig(configuration)
    except ConfigError as error:
        notify_user("warning", str(error))


@app.command()
@expand_options
def show(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help="Configuration file, or - for stdin.")] = None,
    *,
    version: VersionOptions,
    verbosity: Verbosity = 0,
) -> None:
    """Print the effective configuration.

    Fills in every default and lists every plugin; without FILE, prints the default configuration.
    """
    from kframework.config.show import effective_yaml
    from kframework.core.runtime.registry import load_in_tree_args

    configuration = version.override(load_simulation_configuration(file))
    typer.echo(effective_yaml(configuration, load_in_tree_args(configuration)), nl=False)


@app.command()
def schema(plugin: PluginOption, verbosity: Verbosity = 0) -> None:
    """Print the JSON Schema of configurations, for editors.

    It includes the args of every installed plugin, and of those given with --plugin.
    """
    from kframework.config.schema import configuration_schema
    from kframework.core.runtime.registry import Registry

    registry = Registry.with_plugins(*named_plugins(plugin))
    broken = registry.load_all()
    for problem in broken:
        notify_user("warning", f"{problem}; its args are not checked")
    names = [name for name in registry if name not in {problem.plugin for problem in broken}]
    typer.echo(json.dumps(configuration_schema({name: registry.load(name) for name in names}), indent=2))


def compile_profiles(configuration: Configuration, plugins: Sequence[type[Plugin]] = ()) -> Profiles:
    """Return the profiles of a scheduler of this configuration; raises for all that keeps it from being created.

    Only certificates of extenders may be missing on this machine, with a warning.
    """
    from kframework.clock import SystemClock
    from kframework.core.runtime.registry import Registry
    from kframework.in_memory.cluster import MemoryCluster
    from kframework.scheduler.scheduler import Scheduler

    clock = SystemClock()
    registry = Registry.with_plugins(*plugins)
    return Scheduler(configuration, MemoryCluster(clock), clock, registry=registry, extender=_extender).profiles


def _extender(settings: ExtenderSettings) -> Extender:
    from kframework.scheduler.scheduler import http_extender

    tls = settings.tls_config
    files = (tls.ca_file, tls.cert_file, tls.key_file) if tls is not None else ()
    missing = [file for file in files if file and not Path(file).exists()]
    for file in missing:
        notify_user("warning", f"tlsConfig of extender {settings.address}: there is no file {file} on this machine")
    return http_extender(settings.model_copy(update={"tls_config": None}) if missing else settings)
