"""Recordings replayed to a new engine; bindings, timers and coroutines do not run, as their results are recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Generic

import msgspec

from kframework.clock import SystemClock
from kframework.core.cycle.records import AccountObserver, Binding, Decision, GroupDecision, GroupObserver, Observer
from kframework.core.host import Host
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.diff import ATTEMPT, DecisionDiff, ReplayResult
from kframework.observe.recording.engines import E, EngineKind, kind_of_recording
from kframework.observe.recording.pod_engine import FollowingEngine, PodEngineKind
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.writer import FrozenClock, Line

#: Fields of a Decision that are measured, not decided, or that a part which begins in the middle cannot know.
_MEASURED = frozenset({"started", "timings", "plugins", "requeued_by", "took"})

#: The name of a GroupDecision among the records of an engine.
_GROUP = "group"


class Mode(Enum):
    """The mode of a replay: which of engine and recording decides.

    STRICT: the engine, by itself. Each record is compared with the recorded one; the replay ends at the first
    difference. FOLLOW: the recording. Each attempt ends as recorded, whatever the engine would decide.
    """

    STRICT = "strict"
    FOLLOW = "follow"


def replay(file: Path, registry: Registry | None = None) -> ReplayResult:
    """Replay a recording strictly.

    `registry` has the plugins of the pod engine; other engines have their own. Raises InputError for a file
    that is not a recording, or a later part of one, or of an engine that is not installed; ConfigError for missing
    plugins.
    """
    recorded = RecordingReader(file)
    if recorded.header.engine:
        return Replay(recorded, kind_of_recording(recorded)).replay_all()
    return Replay(recorded, PodEngineKind(PodEngine, registry)).replay_all()


def follow(file: Path, registry: Registry | None = None, observers: Iterable[Observer] = ()) -> Replay[FollowingEngine]:
    """Return a recording of the pod engine at its beginning, to be followed; raises InputError, ConfigError."""
    return Replay(RecordingReader(file), PodEngineKind(FollowingEngine, registry), Mode.FOLLOW, observers)


class Replay(Host, Generic[E]):
    """A recording that is replayed to a new engine of its kind, created from the header.

    The engine's state is the recorded one's at every moment. `observers` receive the records that are replayed, and
    the recorded bindings. Raises InputError for a recording of another engine, and in strict mode for a later part.
    """

    def __init__(
        self,
        recorded: RecordingReader,
        kind: EngineKind[E],
        mode: Mode = Mode.STRICT,
        observers: Iterable[Observer] = (),
    ) -> None:
        header = recorded.header
        if mode is Mode.FOLLOW and header.engine:
            raise recorded.error(f"is of the engine {header.engine!r}, which supports only a strict replay")
        if header.engine != kind.name:
            raise recorded.error(f"is a recording of {_engine(header.engine)} and not of {_engine(kind.name)}")
        if mode is Mode.STRICT and header.part > 1:
            raise recorded.error("starts in the middle of a run, where a strict replay is impossible")
        self.recorded: RecordingReader = recorded
        #: The time at which the recording is.
        self.clock: FrozenClock = FrozenClock(SystemClock())
        self.clock.freeze(header.at)
        self.engine: E = kind.rebuild(header.configuration, str(recorded.file), self.clock, self)
        #: The difference at which a strict replay ended before the recording did.
        self.difference: DecisionDiff | None = None
        self._kind = kind
        self._observers = tuple(observers)
        self._record_names: dict[type[msgspec.Struct], str] = {Decision: ATTEMPT, GroupDecision: _GROUP}
        self._record_names |= {record: record_name for record_name, record in kind.accounts.items()}
        self._structs: dict[str, type[msgspec.Struct]] = {record.__name__: record for record in self._record_names}
        self._compared: dict[str, list[int | str]] = {record_name: [] for record_name in self._record_names.values()}
        self._measured = kind.measured_fields | _MEASURED
        #: Decisions of the engine that the recording has not reached yet.
        self._pending_records: deque[msgspec.Struct] = deque()
        self._steps = 0
        self._records = self._replay_strictly() if mode is Mode.STRICT else self._replay_following()

    def __iter__(self) -> Iterator[msgspec.Struct]:
        """Replay to the end, record by record: in strict mode once the engine has made it, else right before."""
        return self._records

    def replay_until(self, stop: Callable[[msgspec.Struct], bool]) -> msgspec.Struct | None:
        """Replay until a record that `stop` accepts, and return it; None at the end, or at a difference."""
        return next(filter(stop, self._records), None)

    def replay_all(self) -> ReplayResult:
        deque(self._records, maxlen=0)
        return ReplayResult(
            compared={name: found for name, found in self._compared.items() if found or name != _GROUP},
            differences=() if self.difference is None else (self.difference,),
            steps=self._steps,
            part=self.recorded.header.part,
            cut_off=self.recorded.cut_off,
        )

    # -- strict --------------------------------------------------------------------------------------------------------

    def _replay_strictly(self) -> Iterator[msgspec.Struct]:
        for line in self.recorded:
            struct = self._structs.get(line.what)
            recorded = None if struct is None else self.recorded.read(line.body, struct)
            if recorded is not None or self._pending_records:
                replayed = self._compare(recorded)
                if replayed is None:
                    return
                yield replayed
            elif line.what == "Step":
                self._steps += 1
                self.clock.freeze(line.at)
                self.engine.step()
                self.engine.complete_step()
            else:
                self._apply(line)
        if self._pending_records and not self.recorded.cut_off:
            self._compare(None)

    def _compare(self, recorded: msgspec.Struct | None) -> msgspec.Struct | None:
        """Return the next record that the engine has made, if it is the recorded one; otherwise set the difference."""
        replayed = self._pending_records.popleft() if self._pending_records else None
        if recorded is None or type(replayed) is not type(recorded):
            self._set_difference(recorded, replayed if recorded is None else None)
            return None
        self._compared[self._record_names[type(recorded)]].append(_name(recorded))
        fields = tuple(
            name
            for name in recorded.__struct_fields__
            if name not in self._measured and getattr(recorded, name) != getattr(replayed, name)
        )
        if fields:
            self._set_difference(recorded, replayed, fields)
            return None
        assert replayed is not None
        self._observe(replayed)
        return replayed

    def _set_difference(
        self, recorded: msgspec.Struct | None, replayed: msgspec.Struct | None, fields: tuple[str, ...] = ()
    ) -> None:
        record = recorded if recorded is not None else replayed
        assert record is not None
        record_name, line = self._record_names[type(record)], self.recorded.number
        kind = ", ".join(fields) or f"no such {record_name}"
        if isinstance(recorded, Decision | None) and isinstance(replayed, Decision | None):
            self.difference = DecisionDiff.from_attempt(kind, recorded, replayed, line=line, fields=fields)
        else:
            self.difference = DecisionDiff(
                record=record_name,
                name=_name(record),
                kind=kind,
                recorded=recorded,
                replayed=replayed,
                line=line,
                fields=fields,
            )

    # -- following -----------------------------------------------------------------------------------------------------

    def _replay_following(self) -> Iterator[Decision | GroupDecision]:
        engine = self.engine
        assert isinstance(engine, FollowingEngine)
        stepping = False
        #: The decisions on pods of groups, by uid; that on the group comes after them.
        members: dict[str, Decision] = {}
        for line in self.recorded:
            if line.what == "Decision":
                decision = self.recorded.read(line.body, Decision)
                if stepping:
                    self._compared[ATTEMPT].append(decision.attempt)
                    yield decision
                if decision.group_attempt:
                    members[decision.uid] = decision
                    if not stepping:
                        self._observe(decision)
                    continue
                self._follow(engine, line, decision, stepping)
            elif line.what == "GroupDecision":
                group = self.recorded.read(line.body, GroupDecision)
                if stepping:
                    self._compared[_GROUP].append(group.group)
                    yield group
                self._follow_group(engine, line, members, group, stepping)
            elif line.what == "Step":
                self._steps += 1
                self.clock.freeze(line.at)
                engine.apply_messages()
                members.clear()
            else:
                self._apply(line)
            stepping = line.what == "Step"

    def _follow(self, engine: FollowingEngine, line: Line, decision: Decision, stepping: bool) -> None:
        """Follow a decision of a step; a later part begins with the last one on each pod."""
        self.clock.freeze(line.at)
        if stepping:
            engine.follow(decision)
        else:
            engine.restore_pod(decision)
        self._pending_records.clear()
        self._observe(decision)

    def _follow_group(
        self, engine: FollowingEngine, line: Line, members: dict[str, Decision], group: GroupDecision, stepping: bool
    ) -> None:
        """Follow the decisions on a group and its pods; a later part begins with the last one on each group."""
        self.clock.freeze(line.at)
        if stepping:
            engine.follow_group(members, group)
        else:
            engine.apply_messages()
            engine.restore_group(members, group)
        self._pending_records.clear()
        for record in (*members.values(), group) if stepping else (group,):
            self._observe(record)

    # -- in both modes -------------------------------------------------------------------------------------------------

    def _apply(self, line: Line) -> None:
        if line.what == "Binding":
            binding = self.recorded.read(line.body, Binding)
            for observer in self._observers:
                observer.on_binding(binding)
            return
        self.clock.freeze(line.at)
        if line.what == "CatchUp":
            self.engine.apply_messages()
        else:
            self._kind.apply_line(self.engine, self.recorded, line)

    def _observe(self, record: msgspec.Struct) -> None:
        for observer in self._observers:
            if isinstance(record, Decision):
                observer.on_decision(record)
            elif isinstance(record, GroupDecision):
                if isinstance(observer, GroupObserver):
                    observer.on_group_decision(record)
            elif isinstance(observer, AccountObserver):
                observer.on_account(record)

    def report_decision(self, decision: Decision) -> None:
        self._pending_records.append(decision)

    def report_group_decision(self, decision: GroupDecision) -> None:
        self._pending_records.append(decision)

    def report_account(self, account: msgspec.Struct) -> None:
        self._pending_records.append(account)


def _engine(name: str) -> str:
    return f"the engine {name!r}" if name else "the pod engine"


def _name(record: msgspec.Struct) -> int | str:
    """Return the number of an attempt, or the name of an account, which is its first field."""
    name: int | str = record.attempt if isinstance(record, Decision) else getattr(record, record.__struct_fields__[0])
    return name
