"""The past of jobs: which job or task a name belongs to or belonged to, and what came of a job in its sessions."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from kframework.engine import BRIEF
from kframework_batch.account import SessionAccount, Turn
from kframework_batch.account_rows import format_counts, format_reasons, rejecting_plugin
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explanation import VICTIMS, HistoryEntry, format_outcome
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.membership import owner_of, owners_of

#: The number of turns and jobs that are processed before the generator yields.
_PIECE_SIZE = 1_000

#: The phases that are reported when a job enters them; its turns show the others.
_REPORTED_PHASES = frozenset({"Running", "Completed", "Unknown"})


def in_pieces(sessions: Iterable[SessionAccount]) -> Iterator[SessionAccount | None]:
    """Go through accounts, and yield None after as many as take a fraction of a millisecond to look through."""
    lines = 0
    for account in sessions:
        yield account
        lines += 1 + len(account.turns) + len(account.jobs)
        if lines > _PIECE_SIZE:
            lines = 0
            yield None


def job_history(sessions: Iterable[SessionAccount], job: str) -> Generator[None, None, tuple[HistoryEntry, ...]]:
    """Return the history of a job, by its uid, in these sessions, the oldest first.

    Consecutive sessions with the same events become one entry, whatever the numbers were.
    """
    stretches: list[HistoryEntry] = []
    before: list[Hashable] = []
    pods: dict[str, None] = {}
    for account in in_pieces(sessions):
        if account is None:
            yield
            continue
        for turn in account.turns:
            pods |= {verdict.pod: None for verdict in turn.verdicts if turn.job == job}
            pods |= {victim.pod: None for victim in turn.victims if victim.job == job}
        happened = [*_turns(account.turns_of(job)), *_evictions(account, pods), *_states(account, job)]
        gists, texts = [each.key for each in happened], tuple(each.text for each in happened)
        if happened and gists == before:
            stretches[-1] = replace(stretches[-1], last=account.uid, events=texts)
        elif happened:
            stretches.append(HistoryEntry(account.at, account.uid, account.uid, texts))
            before = gists
    return tuple(stretches)


class _Event(NamedTuple):
    """An event of a job: its identity, to compare it with the one before, and its wording."""

    key: Hashable
    text: str


def _turns(turns: Iterable[Turn]) -> Iterator[_Event]:
    """Yield the turns, grouped by how they ended, with the message of the last one."""
    alike: dict[tuple[str, str, str], list[Turn]] = {}
    for turn in turns:
        alike.setdefault((turn.outcome, rejecting_plugin(turn), turn.message or turn.action), []).append(turn)
    for (outcome, plugin, _), same in alike.items():
        actions = tuple(dict.fromkeys(turn.action for turn in same))
        text = "; ".join(filter(None, (format_outcome(same[-1]), format_reasons(same[-1]))))
        yield _Event((outcome, plugin, actions), f"{', '.join(actions)}: {text}")


def _evictions(account: SessionAccount, pods: Mapping[str, None]) -> Iterator[_Event]:
    evicted: dict[str, list[str]] = {}
    for pod, reason in account.evicted:
        if pod in pods:
            evicted.setdefault(reason, []).append(pod)
    for reason, sent in evicted.items():
        yield _Event(tuple(sent), f"evicted because of {reason}: {BRIEF.names(sent, VICTIMS)}")


def _states(account: SessionAccount, job: str) -> Iterator[_Event]:
    """Yield how a session left a job; the deletion of its pod group goes before what came after."""
    for gone in account.gone:
        if gone.job == job:
            yield _Event("gone", f"its pod group was deleted; remaining tasks: {format_counts(gone.tasks)}")
    for state in account.jobs:
        if state.job == job:
            if state.phase != state.next_phase and state.next_phase in _REPORTED_PHASES:
                others = state.tasks.keys() - {state.next_phase}
                text = f"{state.next_phase}: {format_counts(state.tasks)}" if others else state.next_phase
                yield _Event(state.next_phase, text)
            elif state.message and not account.turns_of(job):
                yield _Event(state.message, state.message)


def find_job(engine: BatchEngine, namespace: str, name: str) -> tuple[JobInfo, TaskInfo | None] | None:
    """Return a job, and a task of it if a pod has this name; None if there is neither.

    The name is that of the pod group, or of its owner, such as a Job of Volcano; of several it is the youngest.
    """
    jobs = [job for job in engine.cache.jobs.values() if job.namespace == namespace]
    of_owner = [job for job in jobs if job.object is not None and name in owners_of(job.object)]
    owned = [job for job in jobs if job.name == name] or of_owner
    if owned:
        return max(owned, key=lambda job: (job.created, job.uid)), None
    tasks = (task for job in jobs for task in job.tasks.values())
    return next(((task.job, task) for task in tasks if task.name == name), None)


def job_name(job: JobInfo) -> str:
    return (job.object and owner_of(job.object)) or f"pod group {job.uid}"


class EndedJob(NamedTuple):
    """A job whose pod group is gone, by its uid, or one of its tasks (`pod`, by namespace/name)."""

    job: str
    pod: str = ""


def find_ended_job(
    sessions: Sequence[SessionAccount], namespace: str, name: str
) -> Generator[None, None, EndedJob | None]:
    """Return the job that had this name last, by the newest session; None if none is remembered.

    The name is that of its pod group, or of the group's owner, or else of one of its tasks.
    """
    pod = f"{namespace}/{name}"
    of_task: EndedJob | None = None
    for account in in_pieces(sessions):
        if account is None:
            yield
            continue
        gone, states = ((one.job, one.owner) for one in account.gone), ((one.job, one.owner) for one in account.jobs)
        named = (uid for uid, owner in chain(gone, states) if _has_name(uid, owner, namespace, name))
        job = next(named, None)
        if job is not None:
            return EndedJob(job)
        judged = (turn.job for turn in account.turns if any(verdict.pod == pod for verdict in turn.verdicts))
        of_task = of_task or next((EndedJob(job, pod) for job in judged), None)
    return of_task


def _has_name(uid: str, owner: str, namespace: str, name: str) -> bool:
    """Return whether a job has this name; its uid may have an API group before the namespace."""
    group, _, own = uid.rpartition("/")
    is_own = own == name and group.rpartition("/")[2] == namespace
    return is_own or owner.partition(" ")[2] == f"{namespace}/{name}"
