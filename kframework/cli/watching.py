"""`simulate --watch`: simulate again whenever an input has changed, and show which pods moved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from types import FrameType
from typing import NoReturn

import msgspec
import watchfiles

from kframework.cli.named_plugins import search_module
from kframework.cli.outcomes import print_moved, print_placements
from kframework.objects.manifest import SUFFIXES
from kframework.simulation.records import PodOutcome
from kframework.verbosity import notify_user

#: The time of one wait for changes, in milliseconds; the first simulation begins after the first one.
_WAIT_MS = 200


class WatchedPaths(msgspec.Struct, frozen=True):
    """The watched files, and watched folders with the endings of files in them."""

    files: frozenset[Path]
    folders: Mapping[Path, tuple[str, ...]]

    def __contains__(self, path: Path) -> bool:
        if path in self.files:
            return True
        return any(path.suffix in ends and path.is_relative_to(folder) for folder, ends in self.folders.items())

    @property
    def existing_folders(self) -> list[Path]:
        """Every existing folder in which something may change, not including subfolders."""
        below = {Path(path) for folder in self.folders for path, _, _ in os.walk(folder)}
        return sorted(below.union(file.parent for file in self.files if file.parent.is_dir()))


def find_watched_paths(read: Iterable[str], plugins: Iterable[str]) -> WatchedPaths:
    """Watch files and folders that are read, and the code of plugins: of `--plugin`, and all installed editable."""
    paths = [Path(each).resolve() for each in read]
    folders: dict[Path, tuple[str, ...]] = {path: SUFFIXES for path in paths if path.is_dir()}
    files = {path for path in paths if path not in folders}
    for code in _plugin_code(plugins):
        if code.is_dir():
            folders[code] = (".py",)
        else:
            files.add(code)
    return WatchedPaths(frozenset(files), folders)


def _plugin_code(plugins: Iterable[str]) -> Iterator[Path]:
    """Find the modules and packages of plugins, without importing them."""
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")]
    offers = (offer for distribution in distributions() for offer in distribution.entry_points)
    modules = {offer.module for offer in offers if offer.group.startswith("kframework.")}
    search_module(Path.cwd())
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
        for path in spec.submodule_search_locations or filter(None, [spec.origin]):
            code = Path(path).resolve()
            if not any(code.is_relative_to(each) for each in installed):
                yield code


def watch(arguments: Sequence[str], watched: WatchedPaths) -> NoReturn:
    """Simulate with the arguments of a command line, and again with every change, until interrupted.

    SIGINT sets an event besides raising KeyboardInterrupt, which Python drops in a finalizer. It also works in a
    background job of a shell, which starts with SIGINT ignored.
    """
    interrupted = Event()

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        interrupted.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        notify_user("notice", "simulating again after every change, until Ctrl-C")
        outcomes: Mapping[str, PodOutcome] | None = None
        for changed in detect_changes(watched, interrupted):
            if changed:
                notify_user("notice", f"{', '.join(sorted({path.name for path in changed}))} changed")
            outcomes = simulate_again(arguments, outcomes)
    finally:
        signal.signal(signal.SIGINT, before)
    raise KeyboardInterrupt


def detect_changes(watched: WatchedPaths, interrupted: Event) -> Iterator[set[Path]]:
    """Yield the changed files after each change until interrupted; an empty set as soon as watching has begun."""
    is_first = True
    for changes in watchfiles.watch(
        *watched.existing_folders,
        watch_filter=None,  # a filter would also drop the first answer, while other files change
        stop_event=interrupted,
        recursive=False,
        yield_on_timeout=True,
        rust_timeout=_WAIT_MS,
    ):
        changed = {Path(path) for _, path in changes if Path(path) in watched}
        if changed or is_first:
            yield changed
        is_first = False


def simulate_again(
    arguments: Sequence[str], before: Mapping[str, PodOutcome] | None
) -> Mapping[str, PodOutcome] | None:
    """Simulate in a separate process, which imports plugins again, and show the nodes of pods, or what moved.

    Returns the outcomes by pod; those of `before` if the simulation failed, which reports the reason itself.
    """
    # -P: the console script does not import from the current folder either.
    command = [sys.executable, "-P", "-m", "kframework", *arguments, "--output", "json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        return before
    from kframework.cli.answers import PodOutcomeList

    now = {each.pod: each for each in msgspec.json.decode(done.stdout, type=PodOutcomeList).items}
    if before is None:
        print_placements(now.values())
    else:
        print_moved(before, now)
    sys.stdout.flush()
    return now
