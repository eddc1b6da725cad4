"""A run of a sweep, as a worker gets it, and its result in a folder."""

from __future__ import annotations

import gc
import hashlib
import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kframework.config.configuration import Configuration
from kframework.errors import KFrameworkError, format_error
from kframework.objects import ApiObject
from kframework.objects.text_files import replace_file
from kframework.simulation.inputs import read_cluster
from kframework.simulation.measures import MeasureRecorder, SimulationMeasures
from kframework.simulation.simulation import Simulation

#: The results of runs, each with its run.
Results = Sequence[tuple["SweepRun", SimulationMeasures]]


class RunError(KFrameworkError):
    """Raised for a run that failed; it has only a text, so that every executor can send it."""


@dataclass(frozen=True)
class SweepRun:
    """A simulation of a sweep.

    Attributes:
        key: the hash of all that its result depends on.
        configuration: the name of the configuration.
        cluster: the name of the cluster.
        seed: the seed of the scheduler.
        settings: the configuration.
        files: the files of the cluster.
        digest: the hash of the content of the files.
        duration: the virtual seconds to run; None until nothing changes any more.
    """

    key: str
    configuration: str
    cluster: str
    seed: int
    settings: Configuration
    files: tuple[str, ...]
    digest: str
    duration: float | None


def digest_files(files: Sequence[str]) -> str:
    """Hash the content of files, each apart from the next; raises OSError with its name."""
    digests = (hashlib.sha256(Path(file).read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def execute(run: SweepRun) -> SimulationMeasures:
    """Simulate a run in a worker; RunError if that fails."""
    try:
        with Simulation(_read_objects(run), run.settings, seed=run.seed) as simulation:
            recorder = MeasureRecorder(simulation)
            simulation.run(run.duration)
            return recorder.measures
    except Exception as error:
        why = str(error) if isinstance(error, KFrameworkError) else format_error(error)
        raise RunError(f"{run.configuration}, {run.cluster}, seed {run.seed}: {why}") from None
    finally:
        gc.collect()  # a worker has the cycles of one simulation at a time


def _read_objects(run: SweepRun) -> list[ApiObject]:
    """Read the cluster without notices, as the command has printed them before."""
    with redirect_stderr(io.StringIO()):
        objects = read_cluster(run.files, run.settings).objects
    if digest_files(run.files) != run.digest:
        raise RunError("the files of the cluster have changed since the sweep started")
    return objects


class ResultFolder:
    """The results of runs by their keys, a file each: a run that ended stays when a process or the disk fails."""

    def __init__(self, path: Path) -> None:
        """Create the folder if there is none; raises OSError."""
        self.path: Path = path
        self._runs = path / "runs"
        self._runs.mkdir(parents=True, exist_ok=True)

    def read(self, run: SweepRun) -> SimulationMeasures | None:
        """Return the result of a run; None if there is none, or a damaged one."""
        try:
            return msgspec.json.decode(self._file(run).read_bytes(), type=SimulationMeasures)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write(self, run: SweepRun, measures: SimulationMeasures) -> None:
        """Save the result of a run atomically; raises OSError."""
        replace_file(self._file(run), [msgspec.json.encode(measures)])

    def _file(self, run: SweepRun) -> Path:
        return self._runs / f"{run.key}.json"
