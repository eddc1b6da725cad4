"""The seam through which an engine lets its attempts be decided again, by shadows; the engine knows no more of them."""

from __future__ import annotations

from collections.abc import Sequence

from kframework.core.cycle.attempt import Attempt, AttemptResult
from kframework.core.cycle.records import GroupDecision
from kframework.core.cycle.run import Run
from kframework.core.groups.cycle import GroupOutcome
from kframework.core.queue.queued_group import QueuedGroup
from kframework.state.pods import QueuedPod


class AttemptFollower:
    """A follower of an engine's attempts, which looks back at the tables before each of them; this one does not.

    It is called at the begin and end of each cycle, when it only takes notes, and before the next messages are applied:
    then the bindings of the pods have begun, and nothing but attempts has changed the tables since.
    """

    def begin(self, attempt: Attempt) -> None:
        """Note that the attempt of a single pod begins."""

    def end(self, run: Run, result: AttemptResult | None) -> None:
        """Note how the attempts since the last end came out: they are in the run, except for one with a result."""

    def begin_group(self, queued: QueuedGroup, pods: Sequence[QueuedPod]) -> None:
        """Note that the attempts of the waiting pods of a group begin."""

    def end_group(self, decision: GroupDecision, outcomes: Sequence[GroupOutcome]) -> None:
        """Note how they came out."""

    def look_back(self) -> None:
        """Decide again what was noted, and leave the tables as they are."""
