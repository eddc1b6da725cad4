"""The measurements of a PodGroup's cycle: its phases without gaps, and how the walk within each placement ended."""

from __future__ import annotations

from time import perf_counter_ns

from kframework.core.cycle.records import GroupDecision, PlacementTrial, Result
from kframework.core.runtime.timing import PointTiming
from kframework.state.group_trees import EntityKey
from kframework.values.status import Code, Status


class GroupTrace:
    """The measurements of one cycle of a group, which begins now.

    `attempt` is the number of the first pod's attempt; all of them have this `sample_value`.

    Attributes:
        phases: the duration and outcome of each phase, a `placement` for each of the `trials`.
        trials: the placements that were tried, in order.
        placement: the name of the chosen placement; "" if it is all nodes.
        preempts: whether the group waits for a preemption.
    """

    def __init__(self, attempt: int = 0, sample_value: float = 0.0, popped_at: float = 0.0) -> None:
        self.attempt: int = attempt
        self.sample_value: float = sample_value
        self.phases: list[PointTiming] = []
        self.trials: list[PlacementTrial] = []
        self.placement: str = ""
        self.preempts: bool = False
        self._popped_at = popped_at
        self._started = self._phase_started = perf_counter_ns()

    def end_phase(self, point: str, status: Status | None = None) -> None:
        """End the phase of this point, with None for Success; the next one begins."""
        now = perf_counter_ns()
        self.phases.append((point, now - self._phase_started, Code.SUCCESS if status is None else status.code))
        self._phase_started = now

    def add_trial(self, trial: PlacementTrial) -> None:
        """Add how the walk within a placement ended, and end its phase."""
        self.trials.append(trial)
        self.end_phase("placement", Status(trial.code))

    def decision(self, root: EntityKey, profile: str, pods: int, queued_at: float, status: Status) -> GroupDecision:
        """Return the record of the cycle, which ends now with this Status."""
        return GroupDecision(
            group="/".join(root[1:]),
            kind=root[0],
            attempt=self.attempt,
            profile=profile,
            pods=pods,
            queued_at=queued_at,
            popped_at=self._popped_at,
            result=Result.from_status(status),
            code=status.code,
            message=status.message,
            placement=self.placement,
            rejector=status.plugin,
            preempts=self.preempts,
            trials=tuple(self.trials),
            sample_value=self.sample_value,
            started=self._started,
            timings=tuple(self.phases),
            took=perf_counter_ns() - self._started,
        )
