"""A recording of a run under faults, replayed in another process: `python -m tests.faults.repetition FILE`."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import TypeGuard

import msgspec

from kframework.core.cycle.records import Decision
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.reconsider import reconsider
from kframework.observe.recording.replay import replay
from tests.architecture.sources import ROOT
from tests.faults.pod_run import PLUGINS

__all__ = ["Repetition", "repeat", "repeat_in_process"]


class Repetition(msgspec.Struct, frozen=True):
    """What came of it: decided by an engine alone, and attempt by attempt on the state as it was."""

    decisions: int
    difference: str | None
    reconsidered: int
    differences: list[str]

    @property
    def is_identical(self) -> bool:
        """Whether all was decided as it was recorded."""
        return self.difference is None and not self.differences and self.decisions == self.reconsidered


def repeat_in_process(recording: Path, **environment: str) -> Repetition:
    """Decide again what was recorded, in another process with this environment."""
    command = [sys.executable, "-m", __name__, str(recording)]
    done = subprocess.run(command, env=environment or None, cwd=ROOT, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Repetition)


def repeat(recording: Path, registry: Registry = PLUGINS) -> Repetition:
    """Decide again what was recorded, in this process."""
    replayed, reconsidered = replay(recording, registry), reconsider(recording, registry=registry)
    drawn = {one.recorded.group_attempt for one in reconsidered.differences if _was_drawn(one.recorded)}
    differences = [
        f"{one.kind}: {one.recorded} became {one.replayed}"
        for one in reconsidered.differences
        if not isinstance(one.recorded, Decision) or one.recorded.group_attempt not in drawn
    ]
    difference = None if replayed.difference is None else str(replayed.difference)
    return Repetition(replayed.attempts, difference, reconsidered.attempts, differences)


def _was_drawn(recorded: object) -> TypeGuard[Decision]:
    """Return whether it is not recorded to which of equal nodes a pod of a rejected group would have gone.

    With another draw the group may fit.
    """
    return isinstance(recorded, Decision) and bool(recorded.group_attempt) and recorded.ties > 1 and not recorded.node


def main(recording: Path) -> None:
    """Print what comes of this recording."""
    logging.disable(logging.CRITICAL)
    sys.stdout.buffer.write(msgspec.json.encode(repeat(recording)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
