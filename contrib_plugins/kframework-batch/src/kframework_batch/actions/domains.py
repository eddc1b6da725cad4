"""In which hypernodes the tasks of a job may be placed that are to be close together, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kframework_batch.hypernodes import Domain, placed_rows
from kframework_batch.job import Closeness, JobInfo, TaskInfo
from kframework_batch.placement import Choice
from kframework_batch.resource import quantity_of
from kframework_batch.session import Session


def domains(session: Session, job: JobInfo) -> list[Domain]:
    """List the hypernodes in which a job may be placed, in the order in which they are to be tried.

    The lowest tier goes first, within a tier what the plugins value most; of equals one is drawn. All that the job has
    on nodes is in each of them: where that is nowhere the case there is none.
    """
    closeness, rows = job.closeness, placed_rows(session.nodes, job)
    highest = None if closeness is None else _highest_tier(session, closeness)
    if closeness is None or (closeness.tier_name and highest is None):
        return []
    found = (each for each in session.hypernodes.domains() if highest is None or each.tier <= highest)
    ranked = [
        (each.tier, -session.plugins.hypernode_score(job, each), session.random.random(), each)
        for each in found
        if each.holds(rows)
    ]
    return [each for *_, each in sorted(ranked, key=lambda one: one[:3])]


def choose_within(session: Session, task: TaskInfo) -> Choice | str:
    """Choose a node for one task, in the first hypernode that has one; or say why there is none."""
    job = task.job
    if job.closeness is None:
        return session.placement.choose(task)
    found = domains(session, job)
    for domain in found:
        choice = session.placement.choose(task, domain)
        if not isinstance(choice, str):
            return choice
    if not job.closeness.hard:
        return session.placement.choose(task)
    return "no node of a hypernode will do" if found else why_none(session, job)


def why_none(session: Session, job: JobInfo) -> str:
    """Say why there is no hypernode in which a job may be placed."""
    closeness = job.closeness
    assert closeness is not None
    highest = _highest_tier(session, closeness)
    if closeness.tier_name and highest is None:
        return f"no hypernode has the tier name {closeness.tier_name!r}"
    bound = "" if highest is None else f" of tier {highest} or lower"
    if placed_rows(session.nodes, job):
        return f"what it has on nodes already is in no one hypernode{bound}"
    return f"there is no hypernode{bound} with nodes"


def shortage(session: Session, tasks: Collection[TaskInfo], count: int, domain: Domain) -> str:
    """Say what a hypernode lacks for so many of these tasks, even if all that is left were in one piece; "" if nothing.

    It spares trying the tasks one by one where that is hopeless.
    """
    for resource in dict.fromkeys(name for task in tasks for name in task.request):
        amounts = sorted(task.request.get(resource, 0) for task in tasks)
        needed, left = sum(amounts[:count]), session.idle.left(resource, domain.rows)
        if needed > left:
            return f"Insufficient {resource}: {quantity_of(resource, left)} is left of {quantity_of(resource, needed)}"
    return ""


def in_words(messages: Iterable[str]) -> str:
    """Say how many hypernodes do not hold a job, and why."""
    counts = Counter(messages)
    said = "; ".join(f"{count} {message.removesuffix('.')}" for message, count in counts.items())
    return f"0/{counts.total()} hypernodes hold it: {said}"


def _highest_tier(session: Session, closeness: Closeness) -> int | None:
    """Return the highest tier that a job may be spread over; None for any, or if nobody knows its name."""
    if closeness.highest_tier is not None or not closeness.tier_name:
        return closeness.highest_tier
    return session.hypernodes.tier_named(closeness.tier_name)
