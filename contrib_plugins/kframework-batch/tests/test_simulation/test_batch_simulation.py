"""Sessions on virtual time, with the controllers that make pods of jobs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from kframework_batch.config import default_configuration
from kframework_batch.program import compile_program
from kframework_batch.scenario import make_job
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation
from msgspec.structs import replace

from kframework.objects.manifest import read
from kframework.simulation.records import PodOutcome, Progress
from kframework.simulation.timetable import ARRIVES_SECONDS
from kframework.testing import make_node, make_pod

EXAMPLE = Path(__file__).parents[2] / "examples" / "training.yaml"


PROGRAM = compile_program(default_configuration())


@pytest.fixture
def settings() -> ProgramSettings:
    return ProgramSettings(PROGRAM)


def placed(outcomes: Iterable[PodOutcome]) -> dict[str, str | None]:
    return {outcome.pod: outcome.node for outcome in outcomes}


def test_jobs_become_pods_and_gangs_are_bound_as_a_whole(settings: ProgramSettings) -> None:
    half = create_simulation(read([str(EXAMPLE)]).objects, settings).run(60.0).result
    whole = create_simulation(read([str(EXAMPLE)]).objects, settings).run().result
    for outcomes, waiting in ((half.outcomes, {"resnet"}), (whole.outcomes, set())):
        nodes = placed(outcomes)
        assert len(nodes) == 13
        assert {name.split("/")[1].split("-")[0] for name, node in nodes.items() if node is None} == waiting
    assert {outcome.phase for outcome in whole.outcomes if "notebook" not in outcome.pod} == {"Succeeded"}


def test_same_seed_gives_the_same_decisions() -> None:
    def nodes(seed: int) -> dict[str, str | None]:
        return placed(
            create_simulation(read([str(EXAMPLE)]).objects, ProgramSettings(PROGRAM, seed=seed)).run().outcomes
        )

    assert nodes(1) == nodes(1)
    assert len({str(nodes(seed)) for seed in range(4)}) > 1


def test_pods_of_other_schedulers_are_not_scheduled(settings: ProgramSettings) -> None:
    pods = [make_pod("mine", scheduler_name="volcano"), make_pod("theirs")]
    assert placed(create_simulation([make_node("a"), *pods], settings).run().outcomes) == {
        "default/mine": "a",
        "default/theirs": None,
    }


def test_job_arrives_at_its_second(settings: ProgramSettings) -> None:
    job = make_job("late", 1)
    job = replace(job, metadata=replace(job.metadata, annotations={ARRIVES_SECONDS: "30"}))
    early = create_simulation([make_node("a"), job], settings).run(29.0).result
    assert placed(early.outcomes) == {}
    late = create_simulation([make_node("a"), job], settings).run(40.0).result
    assert placed(late.outcomes) == {"default/late-worker-0": "a"}


def test_progress_and_end_are_reported(settings: ProgramSettings) -> None:
    told: list[Progress] = []
    objects = [make_node("a"), make_pod("mine", scheduler_name="volcano")]
    with create_simulation(objects, settings, on_progress=told.append) as simulation:
        assert simulation.run().scheduler.engine.sessions >= 1
    assert told == [Progress(1, 1)]
