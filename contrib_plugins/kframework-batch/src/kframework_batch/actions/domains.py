"""In which hypernodes the tasks of a gang may be placed that are to be close together, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kframework_batch.hypernodes import Domain, occupied_rows
from kframework_batch.job import GangInfo, TaskInfo, TopologyRequirement
from kframework_batch.placement import Choice
from kframework_batch.resource import format_quantity
from kframework_batch.session import Session


def candidate_domains(session: Session, gang: GangInfo, domain: Domain | None) -> list[Domain | None]:
    """List the hypernodes in which a gang may be placed, in the order in which they are to be tried.

    The lowest tier goes first, within a tier what the plugins value most; of equals one is drawn. All that the gang has
    on nodes is in each of them: where that is nowhere the case there is none. Behind them, or alone, comes all that it
    may have, `within`, unless it must be close together.
    """
    closeness = gang.topology
    if closeness is None:
        return [domain]
    highest, rows = _highest_tier(session, closeness), occupied_rows(session.nodes, gang)
    known = () if closeness.tier_name and highest is None else session.hypernodes.domains()
    ranked = [
        (each.tier, -session.plugins.hypernode_score(gang, each), session.random.random(), each)
        for each in known
        if (highest is None or each.tier <= highest) and each.contains_rows(rows) and (domain is None or each in domain)
    ]
    found: list[Domain | None] = [each for *_, each in sorted(ranked, key=lambda one: one[:3])]
    return found if closeness.hard else [*found, domain]


def choose_node(session: Session, task: TaskInfo) -> Choice | str:
    """Return a node for one task, in the first hypernode that has one, or why there is none."""
    found: list[Domain | None] = [None]
    for gang in task.gangs:
        found = [each for domain in found for each in candidate_domains(session, gang, domain)]
        if not found:
            return no_domain_reason(session, gang)
    for domain in found:
        choice = session.placement.choose(task, domain)
        if not isinstance(choice, str):
            return choice
    return choice if found[-1] is None else "no hypernode has a node for it"


def no_domain_reason(session: Session, gang: GangInfo) -> str:
    closeness = gang.topology
    assert closeness is not None
    highest = _highest_tier(session, closeness)
    if closeness.tier_name and highest is None:
        return f"no hypernode has the tier name {closeness.tier_name!r}"
    bound = "" if highest is None else f" of tier {highest} or lower"
    if occupied_rows(session.nodes, gang):
        return f"its running tasks are not within one hypernode{bound}"
    return f"there is no hypernode{bound} with nodes"


def shortage(session: Session, tasks: Collection[TaskInfo], count: int, domain: Domain) -> str:
    """Return what a hypernode lacks for `count` of these tasks, even if all idle room were in one piece, or "".

    It spares trying the tasks one by one where that is hopeless.
    """
    for resource in dict.fromkeys(name for task in tasks for name in task.request):
        amounts = sorted(task.request.get(resource, 0) for task in tasks)
        needed, left = sum(amounts[:count]), session.idle.total_future(resource, domain.rows)
        if needed > left:
            has, wants = format_quantity(resource, left), format_quantity(resource, needed)
            return f"Insufficient {resource}: {has} is left of {wants}"
    return ""


def format_shortages(messages: Iterable[str]) -> str:
    """Return how many hypernodes do not hold a gang, and why."""
    counts = Counter(messages)
    reasons = "; ".join(f"{count} {message.removesuffix('.')}" for message, count in counts.items())
    return f"0/{counts.total()} hypernodes fit it: {reasons}"


def _highest_tier(session: Session, closeness: TopologyRequirement) -> int | None:
    """Return the highest tier that a gang may be spread over; None for any, or if no hypernode has the tier's name."""
    if closeness.highest_tier is not None or not closeness.tier_name:
        return closeness.highest_tier
    return session.hypernodes.tier_by_name(closeness.tier_name)
