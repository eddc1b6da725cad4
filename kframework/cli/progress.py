"""How far a simulation has come, while it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kframework.scheduler.simulate import Progress


@contextmanager
def progress(*, alone: bool) -> Iterator[Callable[[Progress], None]]:
    """Show a bar while the simulation runs, if stderr is a terminal that it has for itself."""
    if not sys.stderr.isatty() or not alone:
        yield lambda progress: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as ProgressBar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ProgressBar(*columns, console=console, transient=True, disable=console.is_dumb_terminal) as bar:
        task = bar.add_task("Pods bound", total=None)
        yield lambda progress: bar.update(task, completed=progress.bound, total=progress.pods)
