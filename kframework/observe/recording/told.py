"""An engine that is made again, and told what a recording says at the time that it is there."""

from __future__ import annotations

from typing import Generic

from kframework.clock import Clock
from kframework.core.effects import Host
from kframework.observe.recording.engines import E, EngineKind
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.writer import Line


class Told(Clock, Generic[E]):
    """An engine of this kind, made as the header says, and its clock; what it has done goes to `outside`."""

    def __init__(self, recorded: Recorded, kind: EngineKind[E], outside: Host) -> None:
        self._recorded = recorded
        self._kind = kind
        self._moment = recorded.header.at
        self.engine: E = kind.again(recorded.header.configuration, str(recorded.file), self, outside)

    def now(self) -> float:
        return self._moment

    def go_to(self, moment: float) -> None:
        """Let it be this time."""
        self._moment = moment

    def tell(self, line: Line) -> None:
        """Do what a line says that tells of no step and of nothing that came of one."""
        self._moment = line.at
        if line.what == "CatchUp":
            self.engine.catch_up()
        else:
            self._kind.tell(self.engine, self._recorded, line)
