"""Gangs that are bound at once, and one by one: decisions and accounts are the same."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from kframework_batch.account import MEASURED
from kframework_batch.recording import RecordedBatchEngine
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_node

from kframework.engine import Run, RunBinding
from kframework.values.status import Status


class RunStage(Stage):
    """A stage that binds the pods of a run at once; `singly` makes it hand them back to be bound one by one."""

    def __init__(self, **arguments: object) -> None:
        self.runs: list[int] = []
        self.singly = False
        super().__init__(**arguments)  # type: ignore[arg-type]  # whatever a Stage takes

    @property
    def can_bind_runs(self) -> bool:
        return True

    def bind_run(self, run: Run) -> None:
        self.runs.append(len(run))
        self.decisions += run
        if self.singly:
            self.engine.bind_individually(run)
            return
        errors: dict[int, Status] = {}
        for place, (attempt, found) in enumerate(zip(run.attempts, run.results, strict=True)):
            status = self.assign(attempt.pod, found.node)
            if status is not None:
                errors[place] = status
        self.engine.offer(RunBinding(run, self.time, 0, 0, errors))


def decided(stage: Stage) -> list[dict[str, object]]:
    """Return what was decided in all sessions, without what is measured."""
    records = [*stage.decisions, *stage.accounts]
    return [
        {name: value for name, value in msgspec.to_builtins(record).items() if name not in MEASURED}
        for record in records
    ]


def test_gang_is_bound_as_one_run() -> None:
    stage = RunStage(nodes=[make_node("a", cpu=4)], gangs=[make_gang("train", 3)])
    stage.session()
    assert stage.runs == [3]
    assert stage.bound == {"train-0": "a", "train-1": "a", "train-2": "a"}
    assert sorted(stage.events) == [
        ("Scheduled", f"Successfully assigned default/train-{number} to a") for number in range(3)
    ]
    stage.check()


@pytest.mark.parametrize("singly", [False, True])
def test_member_whose_binding_failed_is_pending_and_its_gang_is_broken(singly: bool) -> None:
    stage = RunStage(nodes=[make_node("a", cpu=4)], gangs=[make_gang("train", 3)])
    stage.unbindable["train-1"], stage.singly = "no", singly
    stage.session()
    assert set(stage.bound) == {"train-0", "train-2"}
    assert stage.task("train-1").status is TaskStatus.PENDING
    assert stage.message("train-1") == "no"
    stage.check()
    stage.unbindable.clear()
    stage.session()
    assert set(stage.bound) == {"train-0", "train-1", "train-2"}
    assert [decision.pod_attempts for decision in stage.decisions if decision.pod == "default/train-1"][-1] > 1


@pytest.mark.parametrize("seed", range(10))
def test_decisions_are_those_of_pods_bound_one_by_one(seed: int) -> None:
    stages: list[Stage] = []
    for kind in (Stage, RunStage):
        random = Random(seed)
        stage = kind(
            seed=seed,
            nodes=[make_node(f"n{number}", cpu=random.randint(1, 8)) for number in range(5)],
            gangs=[
                make_gang(f"g{number}", random.randint(1, 6), minimum=random.randint(1, 3), cpu=random.choice([1, 2]))
                for number in range(6)
            ],
        )
        stage.unbindable = {f"g{random.randrange(6)}-0": "no"}
        stages.append(stage.session(3))
    singly, in_runs = stages
    assert decided(singly) == decided(in_runs)
    assert (singly.bound, singly.conditions, sorted(singly.events)) == (
        in_runs.bound,
        in_runs.conditions,
        sorted(in_runs.events),
    )


def test_recording_engine_binds_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kframework_batch.testing.BatchEngine", RecordedBatchEngine)
    assert not RunStage().engine.can_bind_runs
