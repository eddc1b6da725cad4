"""The account of a session: one record of its decisions and reasons, for page, explanations, metrics and traces.

Amounts are as in `Resource`: milli-CPU for `cpu`, whole units for all else. Jobs go by their uid (`JobInfo.uid`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from kframework.engine import Binding, Decision, Observer, RecordBuffer


class TurnOutcome(StrEnum):
    """The outcome of a job's turn."""

    #: enqueue: its pods may be made, or not yet.
    ADMITTED = "admitted"
    HELD_BACK = "held back"
    #: Its tasks are bound where they have room, and its victims sent away.
    COMMITTED = "committed"
    #: It had less than it needs, and keeps that until the session ends, so that no other job takes it.
    KEPT = "kept"
    #: It had less than it needs, and all of it was undone.
    DISCARDED = "discarded"
    #: Its queue already holds its share.
    OVERUSED = "overused"
    #: It cannot be scheduled as it is.
    INVALID = "invalid"


class TaskVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one task in a turn.

    `node` is where the task was allocated, or `promised` room: victims still have to leave, or the rest of its subgroup
    has none yet. It was one of `feasible` nodes; `ties` of them had the best `score`. Without a node `message` is the
    reason, and `plugin` the rejecting plugin if it was a single one.
    """

    pod: str
    uid: str
    node: str = ""
    promised: bool = False
    score: float = 0.0
    ties: int = 0
    feasible: int = 0
    message: str = ""
    plugin: str = ""


class Victim(msgspec.Struct, frozen=True):
    """A task that had to go: its pod, its job, and the node whose room it leaves."""

    pod: str
    uid: str
    job: str
    node: str


class ProtectedTasks(msgspec.Struct, frozen=True):
    """The number of tasks that a plugin protected from one task, and the first of them."""

    plugin: str
    tasks: int
    examples: tuple[str, ...]


class RejectedHypernode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hypernode that was tried without success: `had` counts as in a turn, `message` is the reason.

    If nothing was tried, because the hypernode lacks too much altogether, `had` counts what the job had before.
    """

    hypernode: str
    tier: int
    had: int
    message: str


class SubJobTurn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result for one subgroup in a turn of its job; `subjob` is "" for the tasks that are in none.

    It is committed where it has what it needs, kept where it is promised that, else discarded. All other fields are as
    of the turn; the turn decides as a whole what takes effect.
    """

    subjob: str
    outcome: TurnOutcome
    had: int
    minimum: int
    message: str = ""
    hypernode: str = ""
    rejected_hypernodes: tuple[RejectedHypernode, ...] = ()


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One turn of a job in an action, and how it ended.

    `had` counts the tasks of the job that had room or were promised it when the turn ended, of the `minimum` that it
    needs. `plugin` and `message` are the rejection of the job as a whole; `protected` has the plugins that protected
    victims from it. For a job with a network topology `hypernode` is the one in which its tasks have room, and
    `rejected_hypernodes` are the first of the others. `subjobs` are the subgroups that were tried. `at` is when the
    turn ended, in seconds since 1970.
    """

    action: str
    job: str
    queue: str
    outcome: TurnOutcome
    had: int = 0
    minimum: int = 0
    verdicts: tuple[TaskVerdict, ...] = ()
    victims: tuple[Victim, ...] = ()
    protected: tuple[ProtectedTasks, ...] = ()
    plugin: str = ""
    message: str = ""
    hypernode: str = ""
    rejected_hypernodes: tuple[RejectedHypernode, ...] = ()
    at: float = 0.0
    subjobs: tuple[SubJobTurn, ...] = ()


class QueueState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A queue at the beginning of a session, in its place in the queue order, and what its jobs `held` at the end.

    `deserved` is what it deserves according to `plugin`, and `share` the largest fraction of that which it holds, 1
    being all; both are unset without such a plugin. `dominant` is the largest fraction of the cluster it held at last.
    """

    queue: str
    weight: int
    plugin: str = ""
    allocated: Mapping[str, int] = {}
    requested: Mapping[str, int] = {}
    deserved: Mapping[str, int] = {}
    share: float = 0.0
    held: Mapping[str, int] = {}
    dominant: float = 0.0


class JobSummary(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as a session left it, if something of it waits or has changed.

    `phase` was its phase in the beginning, `next_phase` is the one that was written; `tasks` counts by status, what was
    only supposed among it. `owner` is what its pod group belongs to (`Job default/train`), if that is one thing.
    """

    job: str
    queue: str
    owner: str = ""
    priority: int = 0
    phase: str = ""
    next_phase: str = ""
    minimum: int = 0
    tasks: Mapping[str, int] = {}
    message: str = ""


class DeletedJob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job whose pod group is gone since the session before, which left it in this `phase`.

    `tasks` counts those that are left of it by status, `owner` is as a JobSummary has it.
    """

    job: str
    owner: str = ""
    phase: str = ""
    tasks: Mapping[str, int] = {}


class Part(msgspec.Struct, frozen=True):
    """The duration of a part of a session, in nanoseconds: an action, or a plugin where a session opens or closes."""

    kind: str
    name: str
    took: int


class SessionAccount(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One session, from its first action to its last.

    `uid` is what conditions of its pod groups name it by, `at` when it began, in seconds since 1970. There were `nodes`
    with this `capacity`. `queues` are in the order in which they were to be served at first, `turns` in the order in
    which they were taken. `bound` (pod, node) and `evicted` (pod, reason) are all results, of any action. `failure`
    ended it early. `gone` are jobs that have ended.

    `sample_value`, in [0, 1), decides whether it is sampled, as that of a Decision does. `started`, `parts` and the
    `took` of each turn are measured, in nanoseconds of this machine's monotonic clock.
    """

    uid: str
    at: float
    nodes: int = 0
    capacity: Mapping[str, int] = {}
    queues: tuple[QueueState, ...] = ()
    turns: tuple[Turn, ...] = ()
    jobs: tuple[JobSummary, ...] = ()
    gone: tuple[DeletedJob, ...] = ()
    bound: tuple[tuple[str, str], ...] = ()
    evicted: tuple[tuple[str, str], ...] = ()
    failure: str = ""
    sample_value: float = 0.0
    started: int = 0
    parts: tuple[Part, ...] = ()
    took: tuple[int, ...] = ()

    def turns_of(self, job: str) -> tuple[Turn, ...]:
        return tuple(turn for turn in self.turns if turn.job == job)

    def queue(self, name: str) -> QueueState | None:
        return next((state for state in self.queues if state.queue == name), None)


#: What of an account is measured, and no decision.
MEASURED: frozenset[str] = frozenset({"started", "parts", "took"})


class SessionObserver(Observer, ABC):
    """An observer of sessions, which ignores single decisions: the accounts contain them."""

    def on_decision(self, decision: Decision) -> None:
        pass

    def on_binding(self, binding: Binding) -> None:
        pass

    def on_account(self, account: msgspec.Struct) -> None:
        if isinstance(account, SessionAccount):
            self.session_ended(account)

    @abstractmethod
    def session_ended(self, account: SessionAccount) -> None:
        """Process the account of a session that has ended."""


#: The number of idle sessions that are kept, and fewer of others: a turn, a verdict, a bound pod, or a line about a
#: queue or a job weighs as much as an idle session.
MAX_IDLE_SESSIONS = 20_000


class SessionHistory(SessionObserver):
    """Keeps the accounts of the last sessions: `kept` of the shortest, fewer of longer ones, one at least."""

    def __init__(self, kept: int = MAX_IDLE_SESSIONS) -> None:
        self._accounts: RecordBuffer[SessionAccount] = RecordBuffer(kept, _weight)
        #: The last turns of each job, with the session in which it had them.
        self._turns: dict[str, tuple[SessionAccount, list[Turn]]] = {}

    def session_ended(self, account: SessionAccount) -> None:
        turns: dict[str, list[Turn]] = {}
        for turn in account.turns:
            turns.setdefault(turn.job, []).append(turn)
        self._turns |= {job: (account, taken) for job, taken in turns.items()}
        for forgotten in self._accounts.add(account):
            for job in {turn.job for turn in forgotten.turns}:
                if self._turns[job][0] is forgotten:
                    del self._turns[job]

    @property
    def last(self) -> SessionAccount | None:
        return next(iter(self._accounts), None)

    def __iter__(self) -> Iterator[SessionAccount]:
        return iter(self._accounts)

    def __len__(self) -> int:
        return len(self._accounts)

    def session(self, uid: str) -> SessionAccount | None:
        return next((account for account in self._accounts if account.uid == uid), None)

    def last_turns(self, job: str) -> tuple[SessionAccount, list[Turn]] | None:
        """Return the turns of a job in the last session in which it had any; None if that is not remembered."""
        return self._turns.get(job)

    def turns(self, job: str) -> Iterator[tuple[SessionAccount, Turn]]:
        """Go through the turns of a job, those of the newest session first."""
        return ((account, turn) for account in self._accounts for turn in account.turns if turn.job == job)

    def verdicts(self, pod: str) -> Iterator[tuple[SessionAccount, Turn, TaskVerdict]]:
        """Go through the verdicts on a pod, by `namespace/name`, those of the newest session first."""
        for account in self._accounts:
            for turn in account.turns:
                for verdict in turn.verdicts:
                    if verdict.pod == pod:
                        yield account, turn, verdict


def _weight(account: SessionAccount) -> int:
    items = sum(len(turn.verdicts) + len(turn.victims) + len(turn.protected) for turn in account.turns)
    jobs = len(account.jobs) + len(account.gone)
    lines = len(account.queues) + jobs + len(account.bound) + len(account.evicted)
    return 1 + len(account.turns) + items + lines
