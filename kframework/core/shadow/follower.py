"""The shadows of an engine: what its attempts did is noted, and decided again before the next messages are applied.

By then the bindings of the pods have begun, so no pod waits for a shadow. The tables are taken back to where they were
before each attempt, in order, and are in the end as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from kframework.clock import Clock
from kframework.core.attempt_follower import AttemptFollower
from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import Decision, GroupDecision
from kframework.core.cycle.run import Run
from kframework.core.engine import Engine
from kframework.core.groups.cycle import GroupOutcome
from kframework.core.pod_engine import PodEngine
from kframework.core.queue.queued_group import QueuedGroup
from kframework.core.shadow.shadow import GroupAttempt, NotedAttempt, PodAttempt, Shadow
from kframework.state.pods import QueuedPod
from kframework.state.undo_log import LookBack


class ShadowFollower(AttemptFollower):
    """Decides the attempts of an engine again by shadow profiles."""

    def __init__(self, engine: PodEngine, shadows: Sequence[Shadow]) -> None:
        self._engine = engine
        #: What shadows' work is measured by.
        self.clock: Clock = engine.clock
        self._undo_log = engine.cluster.undo_log
        self._shadows: dict[str, list[Shadow]] = {}
        for shadow in shadows:
            self._shadows.setdefault(shadow.profile, []).append(shadow)
        #: The attempts of this cycle; None for one of a profile without shadows.
        self._begun: list[PodAttempt | None] = []
        self._begun_group: GroupAttempt | None = None
        self._noted: list[NotedAttempt] = []

    def __iter__(self) -> Iterator[Shadow]:
        for shadows in self._shadows.values():
            yield from shadows

    def begin(self, attempt: Attempt) -> None:
        profile = attempt.profile.name
        if profile not in self._shadows:
            self._begun.append(None)
            return
        self._undo_log.is_open = True
        index = self._engine.rotation.next_start_index
        self._begun.append(PodAttempt(profile, len(self._undo_log), index, attempt=attempt))

    def end(self, run: Run, result: AttemptResult | None) -> None:
        begun, self._begun = self._begun, []
        for index, noted in enumerate(begun):
            if noted is None:
                continue
            if index < len(run.attempts):
                noted.node, noted.decision = run.results[index].node, partial(run.__getitem__, index)
            elif result is not None:
                noted.node, noted.decision = result[0].node, partial(_first, result)
            self._noted.append(noted)

    def begin_group(self, queued: QueuedGroup, pods: Sequence[QueuedPod]) -> None:
        profile = pods[0].pod.scheduler_name
        if profile in self._shadows:
            self._undo_log.is_open = True
            index = self._engine.rotation.next_start_index
            self._begun_group = GroupAttempt(profile, len(self._undo_log), index, root=queued.root, queued=pods)

    def end_group(self, decision: GroupDecision, outcomes: Sequence[GroupOutcome]) -> None:
        noted, self._begun_group = self._begun_group, None
        if noted is not None:
            noted.group = decision
            noted.decisions = [member for outcome in outcomes for _, (member, _) in outcome.results]
            self._noted.append(noted)

    def look_back(self) -> None:
        self._begun, self._begun_group = [], None  # a cycle that was cancelled has left them
        if not self._undo_log.is_open:
            return
        changes = self._undo_log.close()
        noted, self._noted = self._noted, []
        now = self.clock.now()
        work = [(each, shadow) for each in noted for shadow in self._shadows[each.profile] if shadow.admits(each, now)]
        if not work:
            return
        with LookBack(changes) as past:
            for each, shadow in work:
                past.advance(each.position)
                self._undo_log.is_open = True
                shadow.decide(each)
                self._undo_log.undo()
                before, now = now, self.clock.now()
                shadow.budget.spend(now - before)
        for shadow in self:
            shadow.engine.end_run()


def _first(result: AttemptResult) -> Decision:
    return result[0]


def shadows_of(engine: Engine) -> tuple[Shadow, ...]:
    """Return the shadows of an engine, none for one that supports none."""
    follower = engine.follower if isinstance(engine, PodEngine) else None
    return tuple(follower) if isinstance(follower, ShadowFollower) else ()
