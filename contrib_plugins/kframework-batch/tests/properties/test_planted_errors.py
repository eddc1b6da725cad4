"""A planted error in an account is found: each is planted in every session of many that allows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from kframework_batch.account import (
    JobSummary,
    ProtectedTasks,
    QueueState,
    SessionAccount,
    TaskVerdict,
    Turn,
    TurnOutcome,
    Victim,
)
from msgspec.structs import replace

from tests.support.batch_accounts.scene import SessionScene

#: Makes a World of conftest.py.
MakeWorld = Callable[[int], Any]

#: Worlds with sessions in which all of this can be told, found by looking.
SEEDS = (*range(10), 43, 91, 96, 151)
SESSIONS = 6

_NAMES = {"proportion": "capacity", "capacity": "proportion", "gang": "priority", "overcommit": "sla"}


# -- how to lie: each yields accounts with one lie in them -------------------------------------------------------------

Lies = Callable[[SessionAccount], Iterator[SessionAccount]]


def of_each(field: str, lie: Callable[[Any], Any]) -> Lies:
    """Lie about one of what an account lists."""

    def lies(account: SessionAccount) -> Iterator[SessionAccount]:
        listed = getattr(account, field)
        for place, each in enumerate(listed):
            other = lie(each)
            if other is not None:
                yield replace(account, **{field: (*listed[:place], other, *listed[place + 1 :])})

    return lies


def of_turns(lie: Callable[[Turn], Turn | None]) -> Lies:
    return of_each("turns", lie)


def of_verdicts(lie: Callable[[TaskVerdict], TaskVerdict | None], action: str = "") -> Lies:
    """Lie about a verdict of turns, of those of one action."""

    def turn_with_lie(turn: Turn) -> Turn | None:
        for place, verdict in enumerate(turn.verdicts if turn.action == action or not action else ()):
            other = lie(verdict)
            if other is not None:
                return replace(turn, verdicts=(*turn.verdicts[:place], other, *turn.verdicts[place + 1 :]))
        return None

    return of_turns(turn_with_lie)


def of_queues(lie: Callable[[QueueState], QueueState | None]) -> Lies:
    return of_each("queues", lie)


def of_jobs(lie: Callable[[JobSummary], JobSummary | None]) -> Lies:
    return of_each("jobs", lie)


def changed(lie: Callable[[SessionAccount], SessionAccount | None]) -> Lies:
    """Lie about a session as a whole."""

    def lies(account: SessionAccount) -> Iterator[SessionAccount]:
        other = lie(account)
        if other is not None:
            yield other

    return lies


def more(amounts: Any) -> dict[str, int] | None:
    return {**amounts, "cpu": amounts["cpu"] + 500} if amounts.get("cpu") else None


def with_more(state: QueueState, field: str) -> QueueState | None:
    amounts = more(getattr(state, field)) if state.plugin or field == "held" else None
    return None if amounts is None else replace(state, **{field: amounts})


def one_more(verdict: TaskVerdict, words: str) -> TaskVerdict | None:
    """Count one node more that has this against it."""
    for count in range(9, -1, -1):
        if f" {count} {words}" in verdict.message:
            return replace(verdict, message=verdict.message.replace(f" {count} {words}", f" {count + 1} {words}"))
    return None


def other_outcome(turn: Turn) -> Turn:
    swaps = {
        TurnOutcome.COMMITTED: TurnOutcome.DISCARDED,
        TurnOutcome.DISCARDED: TurnOutcome.COMMITTED,
        TurnOutcome.KEPT: TurnOutcome.DISCARDED,
        TurnOutcome.ADMITTED: TurnOutcome.HELD_BACK,
        TurnOutcome.HELD_BACK: TurnOutcome.ADMITTED,
        TurnOutcome.OVERUSED: TurnOutcome.INVALID,
        TurnOutcome.INVALID: TurnOutcome.OVERUSED,
    }
    return replace(turn, outcome=swaps[turn.outcome])


def other_victim(turn: Turn) -> Turn | None:
    """Let one more go than had to: a task of the job that got room."""
    promised = [verdict for verdict in turn.verdicts if verdict.node]
    if turn.outcome is not TurnOutcome.COMMITTED or not promised or turn.action != "preempt":
        return None
    mine = promised[0]
    return replace(turn, victims=(*turn.victims, Victim(mine.pod, mine.uid, turn.job, mine.node)))


def missing(field: str) -> Lies:
    """Leave one out of many."""

    def lies(account: SessionAccount) -> Iterator[SessionAccount]:
        all_of_them = getattr(account, field)
        for place in range(len(all_of_them)):
            yield replace(account, **{field: (*all_of_them[:place], *all_of_them[place + 1 :])})

    return lies


def swapped(field: str) -> Lies:
    """Swap neighbours."""

    def lies(account: SessionAccount) -> Iterator[SessionAccount]:
        all_of_them = getattr(account, field)
        for place in range(len(all_of_them) - 1):
            one, two = all_of_them[place : place + 2]
            if one != two:
                yield replace(account, **{field: (*all_of_them[:place], two, one, *all_of_them[place + 2 :])})

    return lies


def named_otherwise(spared: ProtectedTasks) -> ProtectedTasks:
    others = {"priority": "conformance", "gang": "conformance", "conformance": "priority"}
    return replace(spared, plugin=others.get(spared.plugin, "conformance"))


def with_spared(lie: Callable[[ProtectedTasks], ProtectedTasks]) -> Lies:
    return of_turns(
        lambda turn: replace(turn, protected=(lie(turn.protected[0]), *turn.protected[1:])) if turn.protected else None
    )


LIES: dict[str, Lies] = {
    # the session
    "a node more": changed(lambda account: replace(account, nodes=account.nodes + 1)),
    "a bigger cluster": changed(
        lambda account: None if more(account.capacity) is None else replace(account, capacity=more(account.capacity))
    ),
    "at another time": changed(lambda account: replace(account, at=account.at + 1)),
    "it failed": changed(lambda account: replace(account, failure="plugin drf: no")),
    "no such lot": changed(lambda account: replace(account, sample_value=1.5)),
    "an action that took no time": missing("parts"),
    # queues
    "a queue that had more": of_queues(lambda state: with_more(state, "allocated")),
    "a queue that asked for more": of_queues(lambda state: with_more(state, "requested")),
    "a queue that was due more": of_queues(lambda state: with_more(state, "deserved")),
    "a queue that held more": of_queues(lambda state: with_more(state, "held")),
    "another share": of_queues(lambda state: replace(state, share=state.share + 0.25) if state.plugin else None),
    "another dominant share": of_queues(lambda state: replace(state, dominant=state.dominant + 0.25)),
    "another weight": of_queues(lambda state: replace(state, weight=state.weight + 1)),
    "due by another plugin": of_queues(
        lambda state: replace(state, plugin=_NAMES[state.plugin]) if state.plugin else None
    ),
    "queues in another order": swapped("queues"),
    "a queue is missing": missing("queues"),
    # turns
    "a turn is missing": missing("turns"),
    "turns in another order": swapped("turns"),
    "a turn twice": changed(
        lambda account: replace(account, turns=(account.turns[0], *account.turns)) if account.turns else None
    ),
    "another outcome": of_turns(other_outcome),
    "one more had room": of_turns(lambda turn: replace(turn, had=turn.had + 1)),
    "needs one less": of_turns(lambda turn: replace(turn, minimum=turn.minimum - 1)),
    "in another queue": of_turns(lambda turn: replace(turn, queue=f"{turn.queue}x")),
    "by another action": of_turns(
        lambda turn: replace(turn, action="elect" if turn.action == "enqueue" else "enqueue")
    ),
    "by another plugin": of_turns(
        lambda turn: replace(turn, plugin=_NAMES[turn.plugin]) if turn.plugin in _NAMES else None
    ),
    "said otherwise": of_turns(lambda turn: replace(turn, message="it was a sunny day") if turn.message else None),
    "a message where there is none": of_turns(
        lambda turn: None if turn.message else replace(turn, message="no victim is needed")
    ),
    # verdicts
    "on another node": of_verdicts(lambda one: replace(one, node=f"{one.node}x") if one.node else None),
    "promised": of_verdicts(lambda one: replace(one, promised=not one.promised) if one.node else None),
    "one more would have done": of_verdicts(
        lambda one: replace(one, feasible=one.feasible + 1) if one.feasible else None, "allocate"
    ),
    "more were as good than fitted": of_verdicts(
        lambda one: replace(one, ties=one.feasible + 1) if one.feasible else None, "allocate"
    ),
    "another pod": of_verdicts(lambda one: replace(one, pod=f"{one.pod}0")),
    "found a node after all": of_verdicts(
        lambda one: None if one.node else replace(one, node="node-0", message="", plugin="", ties=1, feasible=1),
        "allocate",
    ),
    "found none": of_verdicts(
        lambda one: (
            TaskVerdict(one.pod, one.uid, message="0/1 nodes are available: 1 Insufficient cpu.") if one.node else None
        ),
        "allocate",
    ),
    "one more with too little cpu": of_verdicts(lambda one: one_more(one, "Insufficient cpu")),
    "one more that is full": of_verdicts(lambda one: one_more(one, "Too many pods")),
    "one more with a taint": of_verdicts(lambda one: one_more(one, "node(s) had untolerated taint(s)")),
    "the queue was it": of_verdicts(
        lambda one: (
            replace(one, message="queue a has no share left for it", plugin="proportion")
            if one.message.startswith("0/")
            else None
        )
    ),
    "the queue was it not": of_verdicts(
        lambda one: (
            replace(one, message="0/1 nodes are available: 1 Insufficient cpu.", plugin="")
            if "no share left" in one.message
            else None
        )
    ),
    "a verdict is missing": of_turns(
        lambda turn: (
            replace(turn, verdicts=turn.verdicts[1:])
            if turn.verdicts and turn.action in ("allocate", "backfill")
            else None
        )
    ),
    # victims, and who was spared
    "a victim more": of_turns(other_victim),
    "a victim less": of_turns(
        lambda turn: (
            replace(turn, victims=turn.victims[1:]) if turn.victims and turn.outcome is TurnOutcome.COMMITTED else None
        )
    ),
    "a victim of another job": of_turns(
        lambda turn: (
            replace(turn, victims=(replace(turn.victims[0], job=turn.job + "x"), *turn.victims[1:]))
            if turn.victims
            else None
        )
    ),
    "a victim on another node": of_turns(
        lambda turn: (
            replace(turn, victims=(replace(turn.victims[0], node="node-x"), *turn.victims[1:]))
            if turn.victims
            else None
        )
    ),
    "spared by another plugin": with_spared(named_otherwise),
    "spared another one": with_spared(
        lambda spared: replace(spared, examples=("default/pod-0",) * len(spared.examples))
    ),
    "spared many": with_spared(lambda spared: replace(spared, tasks=spared.tasks + 20)),
    # deeds
    "one was not bound": missing("bound"),
    "bound in another order": swapped("bound"),
    "bound elsewhere": changed(
        lambda account: (
            replace(account, bound=((account.bound[0][0], "node-x"), *account.bound[1:])) if account.bound else None
        )
    ),
    "one was not evicted": missing("evicted"),
    "one more was evicted": changed(
        lambda account: replace(account, evicted=(*account.evicted, ("default/pod-1", "preempt")))
    ),
    "evicted for another reason": changed(
        lambda account: (
            replace(account, evicted=((account.evicted[0][0], "shuffle"), *account.evicted[1:]))
            if account.evicted
            else None
        )
    ),
    # jobs
    "a job is missing": missing("jobs"),
    "another phase": of_jobs(lambda state: replace(state, next_phase=f"{state.next_phase}x")),
    "another phase before": of_jobs(lambda state: replace(state, phase=f"{state.phase}x")),
    "a task more": of_jobs(
        lambda state: replace(state, tasks={**state.tasks, "Failed": state.tasks.get("Failed", 0) + 1})
    ),
    "another priority": of_jobs(lambda state: replace(state, priority=state.priority + 1)),
    "another minimum": of_jobs(lambda state: replace(state, minimum=state.minimum + 1)),
    "another reason": of_jobs(lambda state: replace(state, message=f"{state.message} perhaps")),
}


@pytest.fixture
def scenes(make_world: MakeWorld) -> list[SessionScene]:
    """Return sessions of many worlds; the same for all lies."""
    return _scenes(make_world)


@cache
def _scenes(make_world: MakeWorld) -> list[SessionScene]:
    found = []
    for seed in SEEDS:
        world = make_world(seed)
        for _ in range(SESSIONS):
            found.append(SessionScene(world))
            world.happen()
    return found


@pytest.mark.long
@pytest.mark.parametrize("lie", LIES)
def test_planted_error_in_an_account_is_found(lie: str, scenes: list[SessionScene]) -> None:
    told = found = 0
    for seen in scenes:
        for account in list(LIES[lie](seen.account))[:3]:
            told += 1
            try:
                seen.judge(account)
            except AssertionError:
                found += 1
    assert told, "it could be told nowhere"
    assert found == told
