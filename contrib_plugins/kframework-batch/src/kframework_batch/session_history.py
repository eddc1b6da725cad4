"""The last sessions, remembered to be looked at: an observer, whose memory does not grow."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.engine import LastRecords
from kframework_batch.account import SessionAccount, SessionObserver, Turn, Verdict

#: So many sessions in which nothing happens are kept, and fewer of others: a turn, a verdict, a pod that is bound, a
#: line about a queue or a job weigh as much as such a session.
KEPT = 20_000


class SessionHistory(SessionObserver):
    """Keeps the accounts of the last sessions: `kept` of the shortest, fewer of those that say more, one at least."""

    def __init__(self, kept: int = KEPT) -> None:
        self._accounts: LastRecords[SessionAccount] = LastRecords(kept, _weight)
        #: The last turns of each job, with the session in which it had them.
        self._turns: dict[str, tuple[SessionAccount, list[Turn]]] = {}

    def session_ended(self, account: SessionAccount) -> None:
        turns: dict[str, list[Turn]] = {}
        for turn in account.turns:
            turns.setdefault(turn.job, []).append(turn)
        self._turns |= {job: (account, taken) for job, taken in turns.items()}
        for forgotten in self._accounts.put(account):
            for job in {turn.job for turn in forgotten.turns}:
                if self._turns[job][0] is forgotten:
                    del self._turns[job]

    @property
    def last(self) -> SessionAccount | None:
        """The last session; None if there was none."""
        return next(iter(self._accounts), None)

    def __iter__(self) -> Iterator[SessionAccount]:
        """Go through the sessions, the newest first."""
        return iter(self._accounts)

    def __len__(self) -> int:
        return len(self._accounts)

    def session(self, uid: str) -> SessionAccount | None:
        """Return a session; None if it is not remembered."""
        return next((account for account in self._accounts if account.uid == uid), None)

    def last_turns(self, job: str) -> tuple[SessionAccount, list[Turn]] | None:
        """Return the turns of a job in the last session in which it had any; None if that is not remembered."""
        return self._turns.get(job)

    def turns(self, job: str) -> Iterator[tuple[SessionAccount, Turn]]:
        """Go through the turns of a job, those of the newest session first."""
        return ((account, turn) for account in self._accounts for turn in account.turns if turn.job == job)

    def verdicts(self, pod: str) -> Iterator[tuple[SessionAccount, Turn, Verdict]]:
        """Go through the verdicts on a pod, by `namespace/name`, those of the newest session first."""
        for account in self._accounts:
            for turn in account.turns:
                for verdict in turn.verdicts:
                    if verdict.pod == pod:
                        yield account, turn, verdict


def _weight(account: SessionAccount) -> int:
    said = sum(len(turn.verdicts) + len(turn.victims) + len(turn.spared) for turn in account.turns)
    jobs = len(account.jobs) + len(account.gone)
    lines = len(account.queues) + jobs + len(account.bound) + len(account.evicted)
    return 1 + len(account.turns) + said + lines
