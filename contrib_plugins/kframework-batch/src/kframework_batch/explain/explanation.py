"""An explanation of a job or a task: plain data, the same as JSON, and put into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from kframework.clock import rfc3339
from kframework.engine import (
    BRIEF,
    NONE,
    Layout,
    format_fields,
    format_list,
    format_sections,
    format_table,
    indent,
)
from kframework_batch.account import QueueState, RejectedHypernode, SubJobTurn, TaskVerdict, Turn, TurnOutcome, Victim
from kframework_batch.account_rows import format_counts, subjob_name
from kframework_batch.resource import format_amounts


class JobRemedy(msgspec.Struct, frozen=True):
    """A change after which the job would be served, as was tried; these `victims` would have to go for it."""

    change: str
    victims: tuple[Victim, ...] = ()


class TaskPlace(msgspec.Struct, frozen=True):
    """A task, its status, and the node that it is on, if any."""

    pod: str
    status: str
    node: str = ""


class HistoryEntry(msgspec.Struct, frozen=True):
    """Consecutive sessions, `first` to `last`, with the same result for a job; `events` are those of the last.

    It began `at` this time, in seconds since 1970, and lasted until the next one did.
    """

    at: float
    first: str
    last: str
    events: tuple[str, ...]


class JobExplanation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The explanation of one job, or of one of its tasks (`pod`).

    `job` is the uid of the job, `owner` the pod group's owner (`Job default/resnet`). `at` is when this was computed,
    in seconds since 1970; `turns`, `queue` and the `order` of queues are of the `session` at `session_at`. `minimum`
    tasks are needed, `ready` have room. `message` is the rejection of the job as a whole. `remedies` were tried, each
    by itself. `history` has all sessions that are remembered, the oldest first. Of a job whose pod group was deleted,
    at `gone_at`, `phase` was the last.
    """

    engine: str = "batch"
    job: str
    owner: str = ""
    pod: str = ""
    at: float
    phase: str = ""
    priority: int = 0
    minimum: int = 0
    ready: int = 0
    requests: Mapping[str, int] = {}
    tasks: tuple[TaskPlace, ...] = ()
    queue: QueueState | None = None
    queue_name: str = ""
    order: tuple[str, ...] = ()
    session: str = ""
    session_at: float = 0.0
    turns: tuple[Turn, ...] = ()
    message: str = ""
    history: tuple[HistoryEntry, ...] = ()
    gone_at: float = 0.0
    remedies: tuple[JobRemedy, ...] = ()
    notes: tuple[str, ...] = ()


#: The numbers of tasks and victims that are shown without `-o wide`, and of entries from each end of a history.
_TASKS, VICTIMS, _BEGINNING, _END = 4, 3, 4, 8

_OUTCOMES: Mapping[TurnOutcome, str] = {
    TurnOutcome.ADMITTED: "admitted: its pods may be created",
    TurnOutcome.HELD_BACK: "not admitted",
    TurnOutcome.COMMITTED: "served",
    TurnOutcome.KEPT: "not enough; what it got is kept for it until the session ends",
    TurnOutcome.DISCARDED: "discarded",
    TurnOutcome.OVERUSED: "skipped",
    TurnOutcome.INVALID: "cannot be scheduled",
}
#: What has its minimum and found room for none of the tasks that it has beyond.
_NOTHING_MORE = "got nothing more"


def format_explanation(explanation: JobExplanation, *, wide: bool = False) -> str:
    """Put an explanation into words; `wide` leaves nothing out."""
    layout = Layout(wide)
    return format_sections(
        format_fields(_head(explanation)),
        _history(explanation, layout),
        _queue(explanation),
        _turns(explanation, layout),
        _tasks(explanation, layout) if not explanation.pod else (),
        _remedies(explanation),
        (f"note: {note}" for note in explanation.notes),
    )


def _head(explanation: JobExplanation) -> dict[str, str]:
    only = explanation.tasks[0] if explanation.pod and explanation.tasks else None
    gone = f", gone since {rfc3339(explanation.gone_at)}" if explanation.gone_at else ""
    had = f"{explanation.ready} have room of the {explanation.minimum} that are needed"
    return {
        "Pod": explanation.pod,
        "Job": explanation.owner,
        "Pod group": f"{explanation.job}{gone}",
        "Queue": explanation.queue_name or NONE,
        "Phase": explanation.phase or "Pending",
        "Priority": str(explanation.priority or ""),
        "Gang": f"{explanation.minimum} were needed" if gone else had,
        "Requests": format_amounts(explanation.requests),
        "Status": "" if only is None else f"{only.status}{f' on {only.node}' if only.node else ''}",
        "Message": explanation.message,
    }


def _history(explanation: JobExplanation, layout: Layout) -> Iterator[str]:
    """Yield the course of a job from its beginning on, unless it still waits: then its last turns show more."""
    course = explanation.history
    if not course or not (layout.wide or explanation.gone_at or explanation.phase not in ("", "Pending", "Inqueue")):
        return
    began = course[0].at
    yield f"HISTORY since {rfc3339(began)}, each line until the next:"
    lines = []
    for each in course:
        name = f"session {each.last}" if each.first == each.last else f"sessions {each.first} to {each.last}"
        lines += [f"{_format_span(each.at - began)}, {name}: {text}" for text in each.events]
    left_out = 0 if layout.wide else max(len(lines) - _BEGINNING - _END, 0)
    more = [f"and {left_out} more"] if left_out else []
    yield from format_list([*lines[:_BEGINNING], *more, *lines[_BEGINNING + left_out :]])


def _queue(explanation: JobExplanation) -> Iterator[str]:
    state = explanation.queue
    if state is None:
        return
    rank = explanation.order.index(state.queue) + 1
    turn = f"number {rank} of {len(explanation.order)} when the session began"
    yield f"QUEUE {state.queue}, weight {state.weight}, {turn}:"
    if not state.plugin:
        yield from format_list(["no plugin computes its share"])
        return
    held, wanted, due = state.allocated, state.requested, state.deserved
    notes = [
        f"its share, by plugin {state.plugin}: {format_amounts(due) or 'nothing'}",
        f"it held {format_amounts(held) or 'nothing'} and requested {format_amounts(wanted) or 'nothing'}",
    ]
    over = {name: held.get(name, 0) - amount for name, amount in due.items()}
    if above := {name: amount for name, amount in over.items() if amount > 0}:
        notes.append(f"over its share by {format_amounts(above)}")
    below = {name: min(-amount, wanted.get(name, 0) - held.get(name, 0)) for name, amount in over.items()}
    if lacked := {name: amount for name, amount in below.items() if amount > 0}:
        notes.append(f"short of its share by {format_amounts(lacked)}")
    yield from format_list(notes)


def _turns(explanation: JobExplanation, layout: Layout) -> Iterator[str]:
    if not explanation.turns:
        if explanation.session:
            yield f"It had no turn in session {explanation.session}."
        return
    yield f"SESSION {explanation.session}, {_format_span(explanation.at - explanation.session_at)} ago:"
    for turn in explanation.turns:
        by = f"plugin {turn.plugin}" if turn.plugin else ""
        against = ": ".join(filter(None, (by, turn.message)))
        yield f"  - {'; '.join(filter(None, (f'{turn.action}: {format_outcome(turn)}', against)))}"
        pod = explanation.pod
        details = [
            *_verdicts([verdict for verdict in turn.verdicts if not pod or verdict.pod == pod], layout),
            *_subjobs(turn.subjobs, layout),
            *_rejected_hypernodes(turn.rejected_hypernodes, layout),
        ]
        if turn.victims:
            went = "had to go" if turn.outcome is TurnOutcome.COMMITTED else "would have had to go"
            details.append(f"for it {went}: {layout.names([victim.pod for victim in turn.victims], VICTIMS)}")
        for spared in turn.protected:
            names = BRIEF.names(spared.examples, len(spared.examples), spared.tasks)
            details.append(f"plugin {spared.plugin} protects {names}")
        yield from indent(details, 3)


def format_outcome(turn: Turn) -> str:
    nothing = turn.outcome is TurnOutcome.COMMITTED and not any(verdict.node for verdict in turn.verdicts)
    words = [_NOTHING_MORE if nothing and not turn.victims else _OUTCOMES[turn.outcome]]
    if turn.verdicts or turn.outcome in (TurnOutcome.DISCARDED, TurnOutcome.KEPT, TurnOutcome.COMMITTED):
        words.append(f"{turn.had} of the {turn.minimum} tasks that it needs had a place")
    if turn.hypernode:
        words.append(f"in hypernode {turn.hypernode}")
    return "; ".join(words)


def _verdicts(verdicts: Sequence[TaskVerdict], layout: Layout) -> Iterator[str]:
    """List where tasks had their place, and put those together that had none for the same reason."""
    placed = []
    for verdict in verdicts:
        if verdict.node:
            tied = f", drawn from {verdict.ties} that were as good" if verdict.ties > 1 else ""
            best = f", the best of {verdict.feasible} that fitted{tied}" if verdict.feasible else ""
            how = ", the only node that fitted" + tied if verdict.feasible == 1 else best
            had = "was promised" if verdict.promised else "had"
            placed.append(f"{verdict.pod} {had} room on {verdict.node}{how}")
    yield from layout.lines(placed, _TASKS, "and {} more had a place")
    rejected = sorted((verdict for verdict in verdicts if not verdict.node), key=lambda one: (one.message, one.plugin))
    for (message, plugin), alike in groupby(rejected, key=lambda one: (one.message, one.plugin)):
        by = f"plugin {plugin}: " if plugin else ""
        yield f"{layout.names([verdict.pod for verdict in alike], VICTIMS)}: {by}{message}"


def _subjobs(turns: Sequence[SubJobTurn], layout: Layout) -> Iterator[str]:
    """List what became of subgroups, those first that have not enough."""
    ordered = sorted(turns, key=lambda turn: turn.outcome is not TurnOutcome.DISCARDED)
    shown = layout.first(ordered, _TASKS)
    for turn in shown:
        words = [f"{subjob_name(turn.subjob)}: {turn.had} of the {turn.minimum} tasks that it needs had a place"]
        if turn.outcome is TurnOutcome.KEPT:
            words.append("some of them once others have gone")
        if turn.hypernode:
            words.append(f"in hypernode {turn.hypernode}")
        yield "; ".join(filter(None, (*words, turn.message)))
        yield from indent(_rejected_hypernodes(turn.rejected_hypernodes, layout))
    if len(shown) < len(ordered):
        yield f"and {len(ordered) - len(shown)} more subgroups"


def _rejected_hypernodes(tried: Sequence[RejectedHypernode], layout: Layout) -> Iterator[str]:
    lines = [
        f"not in hypernode {one.hypernode} of tier {one.tier}, where {one.had} had a place: {one.message}"
        for one in tried
    ]
    return layout.lines(lines, _TASKS, "and in {} more hypernodes")


def _tasks(explanation: JobExplanation, layout: Layout) -> Iterator[str]:
    tasks, counts = explanation.tasks, Counter(task.status for task in explanation.tasks)
    none = "none are left" if explanation.gone_at else "none are there yet"
    yield f"TASKS: {format_counts(counts) if tasks else none}."
    if layout.wide:
        rows = [(task.pod, task.status, task.node or NONE) for task in tasks]
        yield from format_table(("POD", "STATUS", "NODE"), rows)


def _remedies(explanation: JobExplanation) -> Iterator[str]:
    if not explanation.remedies:
        return
    yield "WHAT WOULD HELP, each by itself; it was tried:"
    yield from format_list(map(format_remedy, explanation.remedies))


def format_remedy(remedy: JobRemedy) -> str:
    """Write a change, and whom it would evict."""
    evicted = f"; evicted for it: {BRIEF.names([victim.pod for victim in remedy.victims], VICTIMS)}"
    return f"{remedy.change}{evicted if remedy.victims else ''}"


def _format_span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60}m"
