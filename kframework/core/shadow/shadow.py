"""One shadow: what it decides of the pods of its profile, counted, with the last differences."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence

import msgspec

from kframework.core.cycle.attempt import Attempt, roll_back_leaked_statements
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.search import Search
from kframework.core.dry_engine import differs_in, is_late_rejection, member_differs_in
from kframework.core.shadow.budget import Budget
from kframework.core.shadow.difference import (
    AGREED,
    FAILED,
    OUTCOMES,
    ShadowDifference,
    compare,
    explain_difference,
)
from kframework.core.shadow.engine import ShadowEngine
from kframework.core.shadow.isolation import ShadowHost
from kframework.core.shadow.read_only import GUARD
from kframework.errors import FAULTS, format_error
from kframework.objects import GenericPodGroup
from kframework.state.pods import QueuedPod

_log = logging.getLogger(__name__)

#: The logger of plugin faults, which a shadow reports itself.
_fault_log = logging.getLogger("kframework.core.runtime.profile")

#: How many differences are kept, and how many different faults are logged.
MAX_DIFFERENCES, MAX_FAULTS = 256, 100


class NotedAttempt(msgspec.Struct, eq=False):
    """An attempt of a profile, as noted when it began: the tables were as at this `position` of the undo log."""

    profile: str
    position: int
    start_index: int

    @property
    def pods(self) -> int:
        """The number of pods."""
        return 1


class PodAttempt(NotedAttempt, eq=False, kw_only=True):
    """The attempt of a single pod: the `node` where it was assumed, "" if nowhere, and the Decision on request."""

    attempt: Attempt
    node: str = ""
    decision: Callable[[], Decision] | None = None


class GroupAttempt(NotedAttempt, eq=False, kw_only=True):
    """The attempt of a group with these pods, and the decisions on them."""

    root: GenericPodGroup
    queued: Sequence[QueuedPod]
    group: GroupDecision | None = None
    decisions: Sequence[Decision] = ()

    @property
    def pods(self) -> int:
        """The number of pods."""
        return len(self.queued)


class Shadow:
    """A shadow profile of another one.

    Attributes:
        name: Its name in the configuration.
        profile: The name of the profile whose pods it decides.
        counts: The number of decisions by outcome.
        plugins: The number of differences by the plugin that made them.
        differences: The last ones, oldest first.
        skipped: The number of pods that it did not decide: for its budget, before its start or after a fault.
        problem: Why it does not decide; "" if it does.
    """

    def __init__(self, name: str, profile: str, engine: ShadowEngine, host: ShadowHost, budget: Budget) -> None:
        self.name = name
        self.profile = profile
        self.engine = engine
        self.host = host
        self.budget = budget
        self.counts: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self.plugins: Counter[str] = Counter()
        self.differences: deque[ShadowDifference] = deque(maxlen=MAX_DIFFERENCES)
        self.skipped: int = 0
        self.problem: str = "it has not started"
        self._faults: set[str] = set()
        #: The faults in the decision at hand.
        self._now: list[str] = []

    def admits(self, noted: NotedAttempt, now: float) -> bool:
        """Return whether to decide an attempt again; it is counted if not."""
        is_admitted = not self.problem and self.budget.admits(now)
        if not is_admitted:
            self.skipped += noted.pods
        return is_admitted

    def decide(self, noted: NotedAttempt) -> None:
        """Decide an attempt again, and count how that compares; no fault of a plugin gets out."""
        _fault_log.addFilter(self._take_fault)
        self.host.is_deciding = GUARD.is_shut = True
        try:
            self.host.call_back()
            self.engine.catch_up()
            if isinstance(noted, PodAttempt):
                self._decide_pod(noted)
            elif isinstance(noted, GroupAttempt):
                self._decide_group(noted)
        except FAULTS as error:
            self.engine.end_run()
            self.counts[FAILED] += noted.pods
            self._log_fault(format_error(error))
        finally:
            self.host.is_deciding = GUARD.is_shut = False
            self.host.roll_back()
            if self.engine.cluster.statements:
                roll_back_leaked_statements(self.engine.cluster, self.engine.profile)
            _fault_log.removeFilter(self._take_fault)
            self._now.clear()

    def _decide_pod(self, noted: PodAttempt) -> None:
        real = None if noted.node or noted.decision is None else noted.decision()
        nominated = "" if real is None else real.nominated or ""
        search, decision = self.engine.decide_otherwise(noted.attempt, noted.start_index, noted.node, nominated)
        if decision is None and not self._now:
            self.counts[AGREED] += 1
        elif noted.decision is not None:
            real = real or noted.decision()
            decision = decision or real
            self._count(differs_in(real, decision), real, decision, search)

    def _decide_group(self, noted: GroupAttempt) -> None:
        if noted.group is None or any(map(is_late_rejection, noted.decisions)):
            self.skipped += noted.pods  # what became of the others depended on the rejection
            return
        engine, queued = self.engine, {each.pod.uid: self.engine.twin(each) for each in noted.queued}
        engine.end_run()
        engine.rotation.next_start_index = noted.start_index
        now = engine.decide_group_again(engine.profile, noted.root, queued, noted.group, noted.decisions)
        for real in noted.decisions:
            self._count(member_differs_in(real, now[real.uid]), real, now[real.uid], None)

    def _count(self, difference: str, real: Decision, decision: Decision, search: Search | None) -> None:
        outcome = FAILED if self._now else compare(real, decision, difference)
        self.counts[outcome] += 1
        if outcome == AGREED:
            return
        explained = explain_difference(outcome, real, decision, search)
        if self._now:
            explained = msgspec.structs.replace(explained, reason=self._now[0])
        self.differences.append(explained)
        if explained.plugin:
            self.plugins[explained.plugin] += 1
        if outcome == FAILED:
            self._log_fault(explained.reason)

    def _take_fault(self, record: logging.LogRecord) -> bool:
        """Keep a fault from the log; it is counted, and logged as the shadow's."""
        self._now.append(record.getMessage())
        return False

    def _log_fault(self, text: str) -> None:
        """Log a fault that is new, up to a number of them."""
        if text not in self._faults and len(self._faults) < MAX_FAULTS:
            self._faults.add(text)
            _log.warning("shadow %r of profile %r: %s", self.name, self.profile, text)
