"""Recordings told again to a new engine, which then decides as the recorded one did.

It decides by itself, and what it decides is compared: the same configuration gives the same decisions. So its state is
at every moment what it was, too, and may be looked at.

Nothing is done outside: no binding, timer or coroutine of a plugin runs, as all that came of them stands in the file.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Generic

import msgspec

from kframework.clock import Clock
from kframework.core.cycle.decision import Accounting, Binding, Decision, Observer
from kframework.core.effects import Host
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.engines import E, EngineKind, kind_of_recording
from kframework.observe.recording.pod_engine import PodEngines
from kframework.observe.recording.reader import Recorded
from kframework.observe.recording.told import Told
from kframework.observe.recording.writer import Line

#: What of a decision is measured, not decided, or not known to a part that begins in the middle.
_MEASURED = frozenset({"started", "timings", "plugins", "woken_by"})


class Difference(msgspec.Struct, frozen=True):
    """Where a replay left its recording: `fields` of a record differ, or one of the two has no such record.

    The records are Decisions, or accounts of the engine's own; `name` is what one is called.
    """

    line: int
    name: str
    recorded: msgspec.Struct | None
    replayed: msgspec.Struct | None
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        recorded, replayed = self.recorded, self.replayed
        if recorded is not None and replayed is not None:
            first = (_first_apart(name, getattr(recorded, name), getattr(replayed, name)) for name in self.fields)
            both = (f"{where} {now!r}, not {before!r}" for where, before, now in first)
            return f"line {self.line}: {self.name} came to {'; '.join(both)}"
        return f"line {self.line}: {self.name} is in the {'recording' if recorded is not None else 'replay'} only"


class Replayed(msgspec.Struct, frozen=True):
    """What a replay came to: how many steps and decisions there were, and the first difference, None if there is none.

    `accounts` counts the accounts of the engine's own, by what one is called. `cut_off`: the recording ends in the
    middle, because its writer died or is still at work.
    """

    steps: int
    decisions: int
    difference: Difference | None
    cut_off: bool = False
    accounts: Mapping[str, int] = {}


def replay(file: Path, registry: Registry | None = None) -> Replayed:
    """Tell a new engine what a recording says, until it decides otherwise than the recorded one.

    `registry` has the plugins of the pod engine; other engines have their own. Raises InputError for what is no
    recording, or a later part of one, or of an engine that is not installed; ConfigError where its plugins are not.
    """
    recorded = Recorded(file)
    if recorded.header.engine:
        return Retelling(recorded, kind_of_recording(recorded)).tell_all()
    return Retelling(recorded, PodEngines(registry)).tell_all()


class Retelling(Host, Generic[E]):
    """A recording told to an engine of its kind that decides by itself, and is compared with the recorded one.

    `observers` take notice of what it decides, and of the recorded bindings. InputError for a later part of a
    recording, and for one of another engine.
    """

    def __init__(self, recorded: Recorded, kind: EngineKind[E], observers: Iterable[Observer] = ()) -> None:
        if recorded.header.engine != kind.name:
            whose = " and not of ".join(map(_engine, (recorded.header.engine, kind.name)))
            raise recorded.error(f"is a recording of {whose}")
        if recorded.header.part > 1:
            raise recorded.error("begins in the middle of a run, so nobody can decide by himself what comes next")
        self._recorded = recorded
        #: What one of each record is called.
        self._nouns: dict[type[msgspec.Struct], str] = {Decision: "attempt"}
        self._nouns |= {record: noun for noun, record in kind.accounts.items()}
        self._records: dict[str, type[msgspec.Struct]] = {record.__name__: record for record in self._nouns}
        self._measured = kind.measured | _MEASURED
        self._observers = tuple(observers)
        #: What the engine has decided and the recording is yet to tell of.
        self._made: deque[msgspec.Struct] = deque()
        self._steps = 0
        self._compared: Counter[str] = Counter()
        self._lines = iter(recorded)
        #: Where the engine has decided otherwise; nothing more is told from there on.
        self.difference: Difference | None = None
        self._told = Told(recorded, kind, self)
        self.engine: E = self._told.engine
        #: The time that it is in the recording.
        self.clock: Clock = self._told

    def tell_until(self, stop: Callable[[msgspec.Struct], bool]) -> msgspec.Struct | None:
        """Tell on until a Decision or account has been made that `stop` accepts, and return it; None at the end.

        The step in which it was made is over then, and nothing that came later is told. Where the engine decides
        otherwise than the recorded one is an end, too.
        """
        return next((made for made in self._alike() if stop(made)), None)

    def tell_all(self) -> Replayed:
        """Tell all that is left."""
        self.tell_until(lambda made: False)
        accounts = {noun: self._compared[noun] for record, noun in self._nouns.items() if record is not Decision}
        return Replayed(self._steps, self._compared["attempt"], self.difference, self._recorded.cut_off, accounts)

    def _alike(self) -> Iterator[msgspec.Struct]:
        """Tell line after line, and yield what is decided as it was."""
        for line in self._lines if self.difference is None else ():
            kind = self._records.get(line.what)
            if kind is not None:
                made = self._compare(self._recorded.read(line.body, kind))
            else:
                made = None
                self.difference = self._unrecorded()
            if self.difference is not None:
                return
            if made is not None:
                yield made
            else:
                self._tell(line)
        if not self._recorded.cut_off:
            self.difference = self._unrecorded()

    def _tell(self, line: Line) -> None:
        if line.what == "Step":
            self._steps += 1
            self._told.go_to(line.at)
            self.engine.step()
        elif line.what == "Binding":
            binding = self._recorded.read(line.body, Binding)
            for observer in self._observers:
                observer.bound(binding)
        else:
            self._told.tell(line)

    def _compare(self, recorded: msgspec.Struct) -> msgspec.Struct | None:
        """Return what was made where the same was recorded; else it is the difference."""
        made = self._made.popleft() if self._made else None
        if type(made) is not type(recorded):
            self.difference = Difference(self._recorded.number, self._name(recorded), recorded, None)
            return None
        self._compared[self._nouns[type(recorded)]] += 1
        fields = tuple(
            name
            for name in recorded.__struct_fields__
            if name not in self._measured and getattr(recorded, name) != getattr(made, name)
        )
        if fields:
            self.difference = Difference(self._recorded.number, self._name(recorded), recorded, made, fields)
        return made

    def _unrecorded(self) -> Difference | None:
        """Return what the recording should have told of by now."""
        if not self._made:
            return None
        made = self._made[0]
        return Difference(self._recorded.number, self._name(made), None, made)

    def _name(self, record: msgspec.Struct) -> str:
        if isinstance(record, Decision):
            return f"attempt {record.attempt} at pod {record.pod}"
        return f"{self._nouns[type(record)]} {getattr(record, record.__struct_fields__[0])}"

    # -- what the engine has done outside --------------------------------------------------------------------------

    def decided(self, decision: Decision) -> None:
        """Keep an attempt until it is compared."""
        self._made.append(decision)
        for observer in self._observers:
            observer.decided(decision)

    def accounted(self, account: msgspec.Struct) -> None:
        """Keep an account until it is compared."""
        self._made.append(account)
        for observer in self._observers:
            if isinstance(observer, Accounting):
                observer.accounted(account)


def _engine(name: str) -> str:
    return f"the engine {name!r}" if name else "the pod engine"


def _first_apart(where: str, before: object, now: object) -> tuple[str, object, object]:
    """Return the first place in two values at which they differ, and what is there."""
    if isinstance(before, msgspec.Struct) and type(before) is type(now):
        pairs = ((f"{where}.{name}", getattr(before, name), getattr(now, name)) for name in before.__struct_fields__)
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        pairs = ((f"{where}[{key!r}]", before.get(key), now.get(key)) for key in {**before, **now})
    elif isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now):
        pairs = ((f"{where}[{place}]", *both) for place, both in enumerate(zip(before, now, strict=True)))
    else:
        return where, before, now
    return next((_first_apart(*pair) for pair in pairs if pair[1] != pair[2]), (where, before, now))
