"""What `kframework fit` asks of sessions: whom they evicted, and why a pod or a job of a workload waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from msgspec.structs import replace

from kframework import Simulation
from kframework.engine import FitSimulation, Obstacle, Remedy, TrialEviction, run_to_end
from kframework.objects import ApiObject
from kframework_batch.account import SessionAccount, SessionHistory, TurnOutcome
from kframework_batch.account_rows import format_reasons
from kframework_batch.engine import BatchEngine
from kframework_batch.explain.explainer import explain_steps
from kframework_batch.explain.explanation import format_remedy
from kframework_batch.explain.history import find_job
from kframework_batch.objects import Job


class EvictionHistory(SessionHistory):
    """Keeps the last sessions, and all evictions with the jobs that they were for."""

    def __init__(self) -> None:
        super().__init__()
        self.evictions: list[TrialEviction] = []

    def session_ended(self, account: SessionAccount) -> None:
        super().session_ended(account)
        owners = {state.job: state.owner.partition(" ")[2] for state in account.jobs}
        for turn in account.turns:
            if turn.outcome is TurnOutcome.COMMITTED:
                evicted_for = owners.get(turn.job) or turn.job
                self.evictions += (TrialEviction(victim.pod, evicted_for, victim.node) for victim in turn.victims)


def _without_preemption(job: ApiObject) -> Job:
    assert isinstance(job, Job)
    tasks = []
    for task in job.spec.tasks:
        spec = replace(task.template.spec, preemption_policy="Never")
        tasks.append(replace(task, template=replace(task.template, spec=spec)))
    return replace(job, spec=replace(job.spec, tasks=tuple(tasks)))


class BatchFitSimulation(FitSimulation[BatchEngine]):
    """A simulation of sessions; their history must be among its observers."""

    copied_kinds: ClassVar[Mapping[type[ApiObject], Callable[[ApiObject], ApiObject]]] = {Job: _without_preemption}

    def __init__(self, simulation: Simulation[BatchEngine], sessions: EvictionHistory) -> None:
        super().__init__(simulation)
        self._sessions = sessions

    def evictions(self) -> Iterator[TrialEviction]:
        yield from self._sessions.evictions

    def find_obstacle(self, namespace: str, name: str) -> Obstacle:
        engine, subject = self.simulation.scheduler.engine, f"{namespace}/{name}"
        found = find_job(engine, namespace, name)
        if found is None:
            job = self.simulation.cluster.find(Job, name, namespace)
            return Obstacle(pod=subject, message="" if job is None else job.status.state.message)
        explanation = run_to_end(explain_steps(engine, list(self._sessions), *found))
        return Obstacle(
            pod=subject,
            message=format_reasons(*explanation.turns) or explanation.message,
            remedies=tuple(Remedy(format_remedy(each), ()) for each in explanation.remedies),
        )
