"""The accounts of sessions as tables that people read: queues, sessions, turns, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kframework.engine import Cell, ColumnKind, Ref, Row, Section, SectionColumn, Tone
from kframework_batch.account import QueueState, SessionAccount, TaskVerdict, Turn, TurnOutcome

#: Names the job of a uid.
NameJob = Callable[[str], Ref]

#: The number of reasons shown for the tasks of one job.
_MAX_REASONS = 3

_TONES = {
    TurnOutcome.ADMITTED: Tone.GOOD,
    TurnOutcome.COMMITTED: Tone.GOOD,
    TurnOutcome.KEPT: Tone.WAITING,
    TurnOutcome.HELD_BACK: Tone.WAITING,
    TurnOutcome.DISCARDED: Tone.WAITING,
    TurnOutcome.OVERUSED: Tone.WAITING,
    TurnOutcome.INVALID: Tone.BAD,
}


def columns(*titles: str | tuple[str, ColumnKind]) -> tuple[SectionColumn, ...]:
    return tuple(SectionColumn(each) if isinstance(each, str) else SectionColumn(*each) for each in titles)


def session_ref(account: SessionAccount) -> Ref:
    return Ref("session", account.uid)


def tone_of(turn: Turn) -> Tone:
    return _TONES[turn.outcome]


def format_had(turn: Turn) -> str:
    return f"{turn.had} of {turn.minimum}"


def rejecting_plugin(turn: Turn) -> str:
    """Name the plugin that stood against a job in a turn; "" if none did alone, or only for the sake of others."""
    rejected = (verdict.plugin for verdict in turn.verdicts if not verdict.node and verdict.plugin)
    return turn.plugin or next(rejected, "")


def format_reasons(*turns: Turn) -> str:
    """Return the rejections of a job in its turns, and their plugins; each once."""
    return "; ".join(dict.fromkeys(chain.from_iterable(map(_reasons, turns))))


def format_placement(turn: Turn) -> str:
    """Return the hypernode in which a job has its room, if it must be within one, and the rejections elsewhere."""
    tried = (
        f"not in {each.hypernode}: {each.message.removesuffix('.')}" for each in turn.rejected_hypernodes[:_MAX_REASONS]
    )
    own = turn.hypernode and f"in hypernode {turn.hypernode}"
    reasons = [(sub, f"in hypernode {sub.hypernode}" if sub.hypernode else sub.message) for sub in turn.subjobs]
    texts = [f"{subjob_name(sub.subjob)}: {what.removesuffix('.')}" for sub, what in reasons if what]
    more = f"and {len(texts) - _MAX_REASONS} other subgroups" if len(texts) > _MAX_REASONS else ""
    return "; ".join(filter(None, (own, format_reasons(turn), *tried, *texts[:_MAX_REASONS], more)))


def subjob_name(name: str) -> str:
    return f"subgroup {name}" if name else "tasks in no subgroup"


def _reasons(turn: Turn) -> Iterator[str]:
    if turn.plugin or turn.message:
        yield _format_rejection(turn.plugin, turn.message)
    rejected = list(
        dict.fromkeys(_format_rejection(each.plugin, each.message) for each in turn.verdicts if not each.node)
    )
    yield from rejected[:_MAX_REASONS]
    if len(rejected) > _MAX_REASONS:
        yield f"and {len(rejected) - _MAX_REASONS} other reasons"
    for each in turn.protected:
        yield f"{each.plugin} protects {each.tasks} {'task' if each.tasks == 1 else 'tasks'}"


def _format_rejection(plugin: str, message: str) -> str:
    return ": ".join(filter(None, (plugin, message.removesuffix("."))))


def queue_section(states: Sequence[QueueState], waiting: Mapping[str, int], session: SessionAccount | None) -> Section:
    """Show queues as a session found them, with the number of pods that wait in each."""
    turns = () if session is None else session.turns
    overused = {turn.queue: turn.plugin for turn in turns if turn.outcome is TurnOutcome.OVERUSED}

    def row(state: QueueState) -> Row:
        name, count = state.queue, waiting.get(state.queue, 0)
        held = state.allocated if state.plugin else state.held
        amounts = {each: (held.get(each, 0), state.deserved.get(each, 0)) for each in {**state.deserved, **held}}
        fills = {each: pair for each, pair in amounts.items() if any(pair)}
        share = state.share if state.plugin and any(state.deserved.values()) else None
        tone = Tone.WAITING if count else Tone.GOOD if state.held else Tone.PLAIN
        return Row((name, state.weight, count, fills, share, state.dominant, overused.get(name, "")), tone)

    note = "" if session is None else f"In the order in which session {session.uid} was to serve them."
    titles = columns(
        *(
            "Queue",
            ("Weight", ColumnKind.NUMBER),
            ("Waiting pods", ColumnKind.NUMBER),
            ("Allocated of its share", ColumnKind.AMOUNTS),
        ),
        *(("Part of its share", ColumnKind.SHARE), ("Part of the cluster at the end", ColumnKind.SHARE), "Overused by"),
    )
    return Section.from_rows("queues", "Queues", titles, map(row, states), len(states), note=note)


def sessions_section(sessions: Iterable[SessionAccount], total: int) -> Section:
    def row(account: SessionAccount) -> Row:
        outcomes = Counter(turn.outcome.value for turn in account.turns)
        summary = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        summary = f"ended early: {account.failure}" if account.failure else summary
        took = sum(part.took for part in account.parts)
        counts = len(account.turns), len(account.bound), len(account.evicted)
        tone = Tone.BAD if account.failure else Tone.GOOD if any(counts[1:]) else Tone.PLAIN
        return Row((session_ref(account), account.at, took, *counts, summary), tone)

    titles = columns(
        *("Session", ("At", ColumnKind.MOMENT), ("Took", ColumnKind.DURATION), ("Turns", ColumnKind.NUMBER)),
        *(("Bound", ColumnKind.NUMBER), ("Evicted", ColumnKind.NUMBER), ("Result", ColumnKind.SENTENCE)),
    )
    return Section.from_rows("sessions", "Sessions", titles, map(row, sessions), total)


def session_sections(account: SessionAccount, name_job: NameJob) -> Iterator[Section]:
    """Show a session: its turns in order, who went, which phases changed, where the time went."""

    def row(turn: Turn) -> Row:
        job, outcome, victims = name_job(turn.job), turn.outcome.value, len(turn.victims) or None
        return Row(
            (job, turn.action, turn.queue, outcome, format_had(turn), format_placement(turn), victims), tone_of(turn)
        )

    note = f"It ended early: {account.failure}" if account.failure else ""
    titles = columns(
        "Job", "Action", "Queue", "Outcome", "Had", ("Why", ColumnKind.SENTENCE), ("Victims", ColumnKind.NUMBER)
    )
    yield Section.from_rows("turns", "Turns, in order", titles, map(row, account.turns), len(account.turns), note=note)
    if account.bound:
        bound = (Row((Ref("pod", pod), Ref("node", node))) for pod, node in account.bound)
        yield Section.from_rows("bound", "Bound", columns("Pod", "Node"), bound, len(account.bound))
    if account.evicted:
        evicted = (Row((Ref("pod", pod), reason)) for pod, reason in account.evicted)
        yield Section.from_rows("evicted", "Evicted", columns("Pod", "Reason"), evicted, len(account.evicted))
    changed = [job for job in account.jobs if job.phase != job.next_phase]
    if changed:
        phases = (Row((name_job(job.job), job.phase or "none", job.next_phase)) for job in changed)
        yield Section.from_rows("phases", "Phases that changed", columns("Job", "From", "To"), phases, len(changed))
    if account.gone:
        gone = (Row((name_job(job.job), job.phase or "none", format_counts(job.tasks))) for job in account.gone)
        titles = columns("Job", "Last phase", "Remaining tasks")
        yield Section.from_rows("gone", "Deleted pod groups", titles, gone, len(account.gone))
    if account.parts:
        parts = (Row((f"{part.kind} {part.name}", part.took)) for part in account.parts)
        titles = columns("Part", ("Took", ColumnKind.DURATION))
        yield Section.from_rows("parts", "Where the time went", titles, parts, len(account.parts))


def format_counts(tasks: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in tasks.items()) or "none"


def job_turns(turns: Iterable[tuple[SessionAccount, Turn]]) -> Section:
    rows = [
        Row(
            (
                session_ref(account),
                account.at,
                turn.action,
                turn.outcome.value,
                format_had(turn),
                format_placement(turn),
            ),
            tone_of(turn),
        )
        for account, turn in turns
    ]
    titles = columns("Session", ("At", ColumnKind.MOMENT), "Action", "Outcome", "Had", ("Why", ColumnKind.SENTENCE))
    return Section.from_rows("turns", "Turns in the last sessions", titles, rows, len(rows))


def pod_verdicts(verdicts: Iterable[tuple[SessionAccount, Turn, TaskVerdict]]) -> Section:
    rows = []
    for account, turn, verdict in verdicts:
        text = f"{verdict.node}, promised" if verdict.promised else ""
        cells: tuple[Cell, ...] = (
            *(session_ref(account), account.at, turn.action),
            *(Ref("node", verdict.node, text) if verdict.node else None, verdict.feasible or None),
            *(f"{turn.outcome.value}, {format_had(turn)}", _format_rejection(verdict.plugin, verdict.message)),
        )
        rows.append(Row(cells, tone_of(turn) if verdict.node else Tone.WAITING))
    titles = columns(
        *("Session", ("At", ColumnKind.MOMENT), "Action", "Node"),
        *(("Feasible nodes", ColumnKind.NUMBER), "Its job's turn", ("Why", ColumnKind.SENTENCE)),
    )
    return Section.from_rows("verdicts", "Verdicts in the last sessions", titles, rows, len(rows))
