"""The accounts of sessions as tables that people read: queues, sessions, turns, verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kframework.engine import Cell, Kind, Ref, Row, Section, SectionColumn, Tone
from kframework_batch.account import Outcome, QueueState, SessionAccount, SubJobTurn, Turn, Verdict

#: Names the job of a uid.
NameJob = Callable[[str], Ref]

#: So many reasons are told of those that tasks of one job have.
_REASONS = 3

_TONES = {
    Outcome.ADMITTED: Tone.GOOD,
    Outcome.COMMITTED: Tone.GOOD,
    Outcome.KEPT: Tone.WAITS,
    Outcome.HELD_BACK: Tone.WAITS,
    Outcome.DISCARDED: Tone.WAITS,
    Outcome.OVERUSED: Tone.WAITS,
    Outcome.INVALID: Tone.BAD,
}


def session_ref(account: SessionAccount) -> Ref:
    """Name a session."""
    return Ref("session", account.uid)


def tone_of(turn: Turn) -> Tone:
    """Return how a job fared in a turn."""
    return _TONES[turn.outcome]


def had(turn: Turn) -> str:
    """Say how many tasks of a job had room or were promised it, of how many it needs."""
    return f"{turn.had} of {turn.minimum}"


def opponent(turn: Turn) -> str:
    """Name the plugin that stood against a job in a turn; "" if none did alone, or only for the sake of others."""
    rejected = (verdict.plugin for verdict in turn.verdicts if not verdict.node and verdict.plugin)
    return turn.plugin or next(rejected, "")


def why(*turns: Turn) -> str:
    """Say what stood against a job in its turns, and who; everything once."""
    return "; ".join(dict.fromkeys(chain.from_iterable(map(_reasons, turns))))


def where(turn: Turn) -> str:
    """Say in which hypernode a job has its room, if it must be within one, and what stood against it elsewhere."""
    tried = (f"not in {each.hypernode}: {each.message.removesuffix('.')}" for each in turn.tried[:_REASONS])
    own = turn.hypernode and f"in hypernode {turn.hypernode}"
    return "; ".join(filter(None, (own, why(turn), *tried, *_where_subjobs(turn.subjobs))))


def subjob_name(name: str) -> str:
    """Name a part of a job."""
    return f"subgroup {name}" if name else "tasks in no subgroup"


def _where_subjobs(turns: Sequence[SubJobTurn]) -> Iterator[str]:
    """Say of subgroups in which hypernode they have their room, or what stood against them."""
    said = [(turn, f"in hypernode {turn.hypernode}" if turn.hypernode else turn.message) for turn in turns]
    told = [f"{subjob_name(turn.subjob)}: {what.removesuffix('.')}" for turn, what in said if what]
    yield from told[:_REASONS]
    if len(told) > _REASONS:
        yield f"and {len(told) - _REASONS} other subgroups"


def _reasons(turn: Turn) -> Iterator[str]:
    if turn.plugin or turn.message:
        yield _said(turn.plugin, turn.message)
    rejected = list(dict.fromkeys(_said(each.plugin, each.message) for each in turn.verdicts if not each.node))
    yield from rejected[:_REASONS]
    if len(rejected) > _REASONS:
        yield f"and {len(rejected) - _REASONS} other reasons"
    for each in turn.spared:
        yield f"{each.plugin} would not let {_tasks(each.tasks)} go"


def _said(plugin: str, message: str) -> str:
    return ": ".join(filter(None, (plugin, message.removesuffix("."))))


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"


# -- queues and sessions ---------------------------------------------------------------------------------------------

_QUEUES = (
    SectionColumn("Queue"),
    SectionColumn("Weight", Kind.NUMBER),
    SectionColumn("Waiting pods", Kind.NUMBER),
    SectionColumn("Allocated of what it is due", Kind.FILLS),
    SectionColumn("Share of its due", Kind.SHARE),
    SectionColumn("Held of the cluster in the end", Kind.SHARE),
    SectionColumn("Overused by"),
)


def queue_section(states: Sequence[QueueState], waiting: Mapping[str, int], session: SessionAccount | None) -> Section:
    """Show queues as a session found them, with the number of pods that wait in each."""
    turns = () if session is None else session.turns
    overused = {turn.queue: turn.plugin for turn in turns if turn.outcome is Outcome.OVERUSED}
    rows = (_queue(state, waiting.get(state.queue, 0), overused.get(state.queue, "")) for state in states)
    note = "" if session is None else f"In the order in which session {session.uid} was to serve them."
    return Section.of("queues", "Queues", _QUEUES, rows, len(states), note=note)


def _queue(state: QueueState, waiting: int, overused: str) -> Row:
    names = {**state.deserved, **state.allocated} if state.plugin else state.held
    held = state.allocated if state.plugin else state.held
    amounts = {name: (held.get(name, 0), state.deserved.get(name, 0)) for name in names}
    fills = {name: pair for name, pair in amounts.items() if any(pair)}
    share = state.share if state.plugin and any(state.deserved.values()) else None
    tone = Tone.WAITS if waiting else Tone.GOOD if state.held else Tone.PLAIN
    return Row((state.queue, state.weight, waiting, fills, share, state.dominant, overused), tone)


_SESSIONS = (
    SectionColumn("Session"),
    SectionColumn("At", Kind.MOMENT),
    SectionColumn("Took", Kind.TOOK),
    SectionColumn("Turns", Kind.NUMBER),
    SectionColumn("Bound", Kind.NUMBER),
    SectionColumn("Evicted", Kind.NUMBER),
    SectionColumn("Came to", Kind.SAID),
)


def sessions_section(sessions: Iterable[SessionAccount], total: int) -> Section:
    """Show sessions, each with what came of it."""
    return Section.of("sessions", "Sessions", _SESSIONS, map(_session, sessions), total)


def _session(account: SessionAccount) -> Row:
    outcomes = Counter(turn.outcome.value for turn in account.turns)
    said = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    cells = (
        session_ref(account),
        account.at,
        sum(part.took for part in account.parts),
        len(account.turns),
        len(account.bound),
        len(account.evicted),
        f"ended early: {account.failure}" if account.failure else said,
    )
    moved = account.bound or account.evicted
    return Row(cells, Tone.BAD if account.failure else Tone.GOOD if moved else Tone.PLAIN)


# -- of a session ----------------------------------------------------------------------------------------------------

_TURNS = (
    SectionColumn("Job"),
    SectionColumn("Action"),
    SectionColumn("Queue"),
    SectionColumn("Outcome"),
    SectionColumn("Had"),
    SectionColumn("Why", Kind.SAID),
    SectionColumn("Victims", Kind.NUMBER),
)


_PHASES = (SectionColumn("Job"), SectionColumn("From"), SectionColumn("To"))

_GONE = (SectionColumn("Job"), SectionColumn("Last phase"), SectionColumn("Left of its tasks"))


def session_sections(account: SessionAccount, name_job: NameJob) -> Iterator[Section]:
    """Show a session: its turns in order, who went, which phases changed, where the time went."""
    turns = (_turn(turn, name_job) for turn in account.turns)
    note = f"It ended early: {account.failure}" if account.failure else ""
    yield Section.of("turns", "Turns, in order", _TURNS, turns, len(account.turns), note=note)
    if account.bound:
        columns = (SectionColumn("Pod"), SectionColumn("Node"))
        bound = (Row((Ref("pod", pod), Ref("node", node))) for pod, node in account.bound)
        yield Section.of("bound", "Bound", columns, bound, len(account.bound))
    if account.evicted:
        columns = (SectionColumn("Pod"), SectionColumn("Because of"))
        evicted = (Row((Ref("pod", pod), reason)) for pod, reason in account.evicted)
        yield Section.of("evicted", "Evicted", columns, evicted, len(account.evicted))
    changed = [job for job in account.jobs if job.phase != job.next_phase]
    if changed:
        phases = (Row((name_job(job.job), job.phase or "none", job.next_phase)) for job in changed)
        yield Section.of("phases", "Phases that changed", _PHASES, phases, len(changed))
    if account.gone:
        gone = (Row((name_job(job.job), job.phase or "none", counted(job.tasks))) for job in account.gone)
        yield Section.of("gone", "Pod groups that are gone", _GONE, gone, len(account.gone))
    if account.parts:
        columns = (SectionColumn("Part"), SectionColumn("Took", Kind.TOOK))
        parts = (Row((f"{part.kind} {part.name}", part.took)) for part in account.parts)
        yield Section.of("parts", "Where the time went", columns, parts, len(account.parts))


def counted(tasks: Mapping[str, int]) -> str:
    """Say how many tasks have which status."""
    return ", ".join(f"{count} {status}" for status, count in tasks.items()) or "none"


def _turn(turn: Turn, name_job: NameJob) -> Row:
    cells: tuple[Cell, ...] = (
        name_job(turn.job),
        turn.action,
        turn.queue,
        turn.outcome.value,
        had(turn),
        where(turn),
        len(turn.victims) or None,
    )
    return Row(cells, tone_of(turn))


# -- of a job, of a pod ----------------------------------------------------------------------------------------------

_JOB_TURNS = (
    SectionColumn("Session"),
    SectionColumn("At", Kind.MOMENT),
    SectionColumn("Action"),
    SectionColumn("Outcome"),
    SectionColumn("Had"),
    SectionColumn("Why", Kind.SAID),
)


def job_turns(turns: Iterable[tuple[SessionAccount, Turn]]) -> Section:
    """Show the turns of a job."""
    rows = [
        Row((session_ref(account), account.at, turn.action, turn.outcome.value, had(turn), where(turn)), tone_of(turn))
        for account, turn in turns
    ]
    return Section.of("turns", "Turns in the last sessions", _JOB_TURNS, rows, len(rows))


_VERDICTS = (
    SectionColumn("Session"),
    SectionColumn("At", Kind.MOMENT),
    SectionColumn("Action"),
    SectionColumn("Node"),
    SectionColumn("Of nodes", Kind.NUMBER),
    SectionColumn("Its job's turn"),
    SectionColumn("Why", Kind.SAID),
)


def pod_verdicts(verdicts: Iterable[tuple[SessionAccount, Turn, Verdict]]) -> Section:
    """Show the verdicts on a pod."""
    rows = [_verdict(account, turn, verdict) for account, turn, verdict in verdicts]
    return Section.of("verdicts", "Verdicts in the last sessions", _VERDICTS, rows, len(rows))


def _verdict(account: SessionAccount, turn: Turn, verdict: Verdict) -> Row:
    node = Ref("node", verdict.node, f"{verdict.node}, promised" if verdict.promised else "") if verdict.node else None
    cells: tuple[Cell, ...] = (
        session_ref(account),
        account.at,
        turn.action,
        node,
        verdict.feasible or None,
        f"{turn.outcome.value}, {had(turn)}",
        _said(verdict.plugin, verdict.message),
    )
    return Row(cells, tone_of(turn) if verdict.node else Tone.WAITS)
