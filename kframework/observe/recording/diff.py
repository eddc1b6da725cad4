"""The result of a replay: the records that were decided again, and the decisions that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum

import msgspec

from kframework.core.cycle.records import Decision
from kframework.observe.text_table import NONE

#: The name of a Decision among the records of an engine.
ATTEMPT = "attempt"


class DecisionDiff(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that a replay makes differently.

    Attributes:
        record: The name of its record: `attempt`, or one of the engine's own, such as `session`.
        name: The number of the attempt, or the name of the engine's own record.
        kind: The kind of difference, such as `other node`; in a strict replay the fields that differ.
        recorded: The decision in the recording, None if only the replay makes it.
        replayed: The decision of the replay, None if only the recording has it.
        subject_kind: The kind of the subject: `pod`, or one of the engine's own, such as `job`.
        subject: The pod or job that the decision is about; "" if a whole record differs.
        at: The time of the decision, in seconds since 1970.
        recorded_text: The recorded decision, for a table.
        replayed_text: The decision of the replay, for a table.
        message: The reason.
        details: Further fields of the JSON output, by name.
        line: The line of the recording at which a strict replay ended; 0 otherwise.
        fields: The fields of the record that differ in a strict replay.
    """

    record: str
    name: int | str
    kind: str
    recorded: object
    replayed: object
    subject_kind: str = ""
    subject: str = ""
    at: float = 0.0
    recorded_text: str = ""
    replayed_text: str = ""
    message: str = ""
    details: Mapping[str, object] = {}
    line: int = 0
    fields: tuple[str, ...] = ()

    @classmethod
    def from_attempt(
        cls,
        kind: str,
        recorded: Decision | None,
        replayed: Decision | None,
        *,
        line: int = 0,
        fields: tuple[str, ...] = (),
    ) -> DecisionDiff:
        """Compare two decisions of an attempt; one may be missing."""
        decision = recorded or replayed
        assert decision is not None
        return cls(
            record=ATTEMPT,
            name=decision.attempt,
            kind=kind,
            recorded=recorded,
            replayed=replayed,
            subject_kind="pod",
            subject=decision.pod,
            at=decision.popped_at,
            recorded_text=_node_of(recorded),
            replayed_text=_node_of(replayed),
            message="" if recorded is None or replayed is None else _reason(kind, recorded, replayed),
            line=line,
            fields=fields,
        )

    @property
    def title(self) -> str:
        """The record and its subject, such as `attempt 3 of pod shop/web`."""
        title = f"{self.record} {self.name}"
        return f"{title} of {self.subject_kind} {self.subject}" if self.subject else title

    def __str__(self) -> str:
        recorded, replayed = self.recorded, self.replayed
        if not self.line:
            return f"{self.title}: {self.kind}"
        if recorded is not None and replayed is not None:
            first = (_first_difference(name, getattr(recorded, name), getattr(replayed, name)) for name in self.fields)
            both = (f"{path} {_plain(now)!r}, not {_plain(before)!r}" for path, before, now in first)
            return f"line {self.line}: {self.title} got {'; '.join(both)}"
        return f"line {self.line}: {self.title} is in the {'recording' if recorded is not None else 'replay'} only"


class Unrepeated(msgspec.Struct, frozen=True, rename="camel"):
    """What a replay with another configuration takes from the recording without deciding it again.

    Attributes:
        late_rejections: The attempts that failed after the choice of a node, in Reserve or Permit.
        earlier_pods: The attempts at pods that were created before the recording began.
        gated_pods: The pods that PreEnqueue gates at the end.
        hooks: The hooks that decide but are not called, such as `Quota.reserve`, of plugins that are not built in.
    """

    late_rejections: tuple[int, ...] = ()
    earlier_pods: tuple[int, ...] = ()
    gated_pods: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()


class ReplayResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay.

    Attributes:
        compared: The names of the records that were decided again, in order, by the name of their kind.
        differences: The decisions that differ, in order; a strict replay ends at the first.
        unrepeated: What was not decided again.
        steps: The steps that the engine took.
        part: The number of the recording among the parts of a run, from 1.
        cut_off: Whether the recording ends in the middle, because its writer died or is still at work.
    """

    compared: Mapping[str, Sequence[int | str]]
    differences: tuple[DecisionDiff, ...] = ()
    unrepeated: Unrepeated = Unrepeated()
    steps: int = 0
    part: int = 1
    cut_off: bool = False

    @property
    def attempts(self) -> int:
        """The number of attempts that were decided again."""
        return len(self.compared.get(ATTEMPT, ()))

    @property
    def difference(self) -> DecisionDiff | None:
        """The first difference, None if there is none."""
        return next(iter(self.differences), None)


def _node_of(decision: Decision | None) -> str:
    """Name the node, or in brackets the one where preemption makes room."""
    if decision is None:
        return NONE
    return decision.node or (f"({decision.nominated})" if decision.nominated else NONE)


def _reason(kind: str, recorded: Decision, replayed: Decision) -> str:
    match kind:
        case "other node":
            return ", ".join(f"{node} {score}" for node, score in replayed.best_nodes)
        case "fits now":
            return recorded.message
        case "other victims":
            return f"preempts {', '.join(replayed.victims)}" if replayed.victims else replayed.message
    return replayed.message


def _first_difference(path: str, before: object, now: object) -> tuple[str, object, object]:
    """Return the path at which two values first differ, and both values there."""
    if isinstance(before, msgspec.Struct) and type(before) is type(now):
        pairs = ((f"{path}.{name}", getattr(before, name), getattr(now, name)) for name in before.__struct_fields__)
    elif isinstance(before, Mapping) and isinstance(now, Mapping):
        pairs = ((f"{path}[{key!r}]", before.get(key), now.get(key)) for key in {**before, **now})
    elif isinstance(before, tuple) and isinstance(now, tuple) and len(before) == len(now):
        pairs = ((f"{path}[{index}]", *both) for index, both in enumerate(zip(before, now, strict=True)))
    else:
        return path, before, now
    return next((_first_difference(*pair) for pair in pairs if pair[1] != pair[2]), (path, before, now))


def _plain(value: object) -> object:
    """Return a member of an enumeration as its word, and any other value unchanged."""
    if isinstance(value, StrEnum):
        return str(value)
    return value.name if isinstance(value, Enum) else value
