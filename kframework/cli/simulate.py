"""`kframework simulate`: schedule the pods of cluster files on virtual time, and say where each one went."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
import typer
import watchfiles

from kframework.cli.named_plugins import PluginOption, look_in, named_plugins
from kframework.cli.options import (
    STDIN,
    Config,
    Controllers,
    Dev,
    Devices,
    DurationOption,
    Filenames,
    Logging,
    Output,
    OutputOption,
    Seed,
    Strict,
    Verbosity,
    refuse_overwriting,
    refuse_reading_stdin_twice,
)
from kframework.cli.outcomes import print_moved, print_outcomes, print_places, progress, say_notices, summarise
from kframework.cli.recording import Record, RecordAnnotations, RecordLimit, recording, with_read_only
from kframework.cli.tracing import CONSOLE, Trace, traced_to
from kframework.objects.manifest import SUFFIXES
from kframework.simulation.inputs import configured, read_cluster
from kframework.simulation.records import Outcome
from kframework.verbosity import say

if TYPE_CHECKING:
    from kframework.clock import Clock
    from kframework.config.configuration import Configuration
    from kframework.core.cycle.decision import Observer
    from kframework.core.effects import Host
    from kframework.core.plugin_handle import MakeProfiles
    from kframework.core.pod_engine import PodEngine
    from kframework.scheduler.extenders import Extenders
    from kframework.scheduler.scheduler import MakeEngine


#: Plugins are timed in about so many attempts for a report.
_TIMED = 5_000


def command(
    context: typer.Context,
    filenames: Filenames,
    plugin: PluginOption,
    record_annotations: RecordAnnotations,
    config: Config = None,
    devices: Devices = None,
    strict: Strict = False,
    duration: DurationOption = None,
    controllers: Controllers = "*",
    output: OutputOption = None,
    seed: Seed = None,
    trace: Trace = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write an HTML page here that shows what came of it, and why.")
    ] = None,
    record: Record = None,
    record_limit: RecordLimit = None,
    dev: Dev = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Simulate again whenever a file or a plugin has changed, and print what moved."),
    ] = False,
    pdb: Annotated[
        bool, typer.Option("--pdb", help="Open the debugger in every hook that raises; q ends all.")
    ] = False,
    verbosity: Verbosity = 0,
    logging_format: Logging = None,
) -> None:
    """Schedule the pods of cluster files on virtual time.

    Prints where every pod went, or why it waits. Give it what `kubectl get nodes,pods -A -o yaml` prints, or files
    that you wrote; all of it happens in memory.
    """
    from kframework.observe.journal import Journal
    from kframework.simulation.simulation import Simulation

    refuse_reading_stdin_twice(filenames, config)
    if pdb and STDIN in (*filenames, config):
        raise typer.BadParameter("the debugger reads stdin; name files", param_hint="'--pdb'")
    read = [*filenames, *filter(None, (config, devices))]
    refuse_overwriting(read, report=report, trace=None if trace == CONSOLE else trace, record=record)
    if watch:
        _refuse_beside_watch(read, output, pdb)
        _simulate_again_and_again([each for each in context.obj if each != "--watch"], read, plugin)
    plugins = named_plugins(plugin)
    configuration = configured(config, plugins, seed)
    objects = read_cluster(filenames, configuration, plugins, devices=devices, strict=strict).objects
    with ExitStack() as closing:
        tracing = closing.enter_context(traced_to(trace, configuration))
        observers: list[Observer] = [] if tracing is None else [tracing]
        if verbosity:
            observers.append(Journal() if tracing is None else Journal(tracing.trace_id))
        # Opened at once, so that a simulation is not in vain that could not be written down.
        page = closing.enter_context(open(report, "w", encoding="utf-8")) if report is not None else None
        recorded = closing.enter_context(recording(record, record_limit, record_annotations))
        if dev:
            recorded = with_read_only(recorded)
        if pdb:
            recorded = recorded._replace(engine=_with_debugger(recorded.engine))
        simulation = closing.enter_context(
            Simulation(
                objects,
                configuration,
                plugins=plugins,
                observers=[*observers, *recorded.observers],
                engine=recorded.engine,
                workload_controllers=controllers.split(","),
                on_progress=closing.enter_context(progress(alone=trace != CONSOLE and not verbosity and not pdb)),
                timed_share=max(
                    min(1.0, _TIMED / max(len(objects), 1)) if report is not None else 0.0,
                    tracing.share if tracing is not None else 0.0,
                ),
            )
        )
        result = simulation.run(duration).result
        if page is not None:
            page.write(simulation.report(f"Simulation of {', '.join(filenames)}"))
    say_notices(result, [profile.scheduler_name for profile in configuration.profiles])
    print_outcomes(result, output)
    summarise(result)


def _refuse_beside_watch(read: Sequence[str], output: Output | None, pdb: bool) -> None:
    """Refuse what does not go with `--watch`."""
    if STDIN in read:
        raise typer.BadParameter("stdin does not change; name files", param_hint="'--watch'")
    if output is not None:
        raise typer.BadParameter("prints what moved, in no other form; leave out --output", param_hint="'--watch'")
    if pdb:
        raise typer.BadParameter("simulates in other processes; run --pdb by itself", param_hint="'--watch'")


def _simulate_again_and_again(arguments: Sequence[str], read: Sequence[str], plugins: Sequence[str]) -> NoReturn:
    from kframework.cli.simulate import watch, watched

    watch(arguments, watched(read, plugins))


# -- the debugger ------------------------------------------------------------------------------------------------------


def _with_debugger(make: MakeEngine[PodEngine]) -> MakeEngine[PodEngine]:
    """Return what makes the same engine, and opens the debugger where one of its plugins raises."""

    def made(
        configuration: Configuration, clock: Clock, effects: Host, extenders: Extenders, profiles: MakeProfiles
    ) -> PodEngine:
        engine = make(configuration, clock, effects, extenders, profiles)
        debugger = _Debugger()
        for profile in engine.profiles.values():
            profile.on_fault = debugger.open
        return engine

    return made


class _Debugger:
    """Python's debugger, opened for one fault after the other."""

    def __init__(self) -> None:
        self._has_quit = False

    def open(self, error: BaseException) -> None:
        """Open where this was raised; after `c` the simulation goes on, after `q` every fault raises BdbQuit."""
        import pdb
        from bdb import BdbQuit

        if not self._has_quit:
            debugger = pdb.Pdb()
            debugger.reset()
            debugger.interaction(None, error.__traceback__)
            self._has_quit = debugger.quitting
        if self._has_quit:
            raise BdbQuit


#: What entry points of ours begin with: of plugins, kinds, commands.
_GROUPS = "kframework."

#: So long it is listened at a time, in milliseconds; the first simulation begins after the first time.
_EVERY = 200


class Watched(msgspec.Struct, frozen=True):
    """What is watched: files, and folders of which all files count that end like this."""

    files: frozenset[Path]
    folders: Mapping[Path, tuple[str, ...]]

    def __contains__(self, path: Path) -> bool:
        if path in self.files:
            return True
        return any(path.suffix in ends and path.is_relative_to(folder) for folder, ends in self.folders.items())

    @property
    def places(self) -> list[Path]:
        """Every folder in which something may change; it is there, and does not stand for those below it."""
        below = {Path(place) for folder in self.folders for place, _, _ in os.walk(folder)}
        return sorted(below.union(file.parent for file in self.files if file.parent.is_dir()))


def watched(read: Iterable[str], plugins: Iterable[str]) -> Watched:
    """Watch files and folders that are read, and the code of plugins: of `--plugin`, and all installed editable."""
    paths = [Path(each).resolve() for each in read]
    folders: dict[Path, tuple[str, ...]] = {path: SUFFIXES for path in paths if path.is_dir()}
    files = {path for path in paths if path not in folders}
    for code in _code(plugins):
        if code.is_dir():
            folders[code] = (".py",)
        else:
            files.add(code)
    return Watched(frozenset(files), folders)


def _code(plugins: Iterable[str]) -> Iterator[Path]:
    """Find the modules and packages of plugins, without importing any."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")]
    offers = (offer for distribution in distributions() for offer in distribution.entry_points)
    modules = {offer.module for offer in offers if offer.group.startswith(_GROUPS)}
    look_in(Path.cwd())
    for plugin in plugins:
        where = plugin.rpartition(":")[0]
        if where.endswith(".py"):
            yield Path(where).resolve()
        else:
            modules.add(where)
    for module in sorted({module.partition(".")[0] for module in modules}):
        spec = find_spec(module)
        if spec is None:
            continue
        for place in spec.submodule_search_locations or filter(None, [spec.origin]):
            code = Path(place).resolve()
            if not any(code.is_relative_to(each) for each in installed):
                yield code


def watch(arguments: Sequence[str], watched: Watched) -> NoReturn:
    """Simulate with the arguments of a command line, and again with every change, until interrupted."""
    say("notice", "simulates again when something changes, until Ctrl-C")
    outcomes: Mapping[str, Outcome] | None = None
    for changed in changes(watched):
        if changed:
            say("notice", f"{', '.join(sorted({path.name for path in changed}))} changed")
        outcomes = simulate_again(arguments, outcomes)
    raise AssertionError("watching has no end")


def changes(watched: Watched) -> Iterator[set[Path]]:
    """Yield what has changed, whenever something has; and nothing as soon as no change is missed any more."""
    quiet = True
    for changed in watchfiles.watch(
        *watched.places,
        watch_filter=lambda change, path: Path(path) in watched,
        recursive=False,
        yield_on_timeout=True,
        rust_timeout=_EVERY,
    ):
        if changed or quiet:
            yield {Path(path) for _, path in changed}
        quiet = False


def simulate_again(arguments: Sequence[str], before: Mapping[str, Outcome] | None) -> Mapping[str, Outcome] | None:
    """Simulate in a process of its own, which imports plugins anew, and show where pods went, or what moved.

    Returns the outcomes by pod; those of `before` where the simulation failed, which says itself why.
    """
    # -P: the console script does not look for modules in the folder at hand either.
    command = [sys.executable, "-P", "-m", "kframework", *arguments, "--output", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return before
    now = {each.pod: each for each in msgspec.json.decode(done.stdout, type=list[Outcome])}
    if before is None:
        print_places(now.values())
    else:
        print_moved(before, now)
    sys.stdout.flush()
    return now
