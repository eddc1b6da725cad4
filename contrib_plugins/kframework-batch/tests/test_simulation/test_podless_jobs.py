"""Jobs without pods are named, with the reason."""

from __future__ import annotations

import pytest
from kframework_batch.config import default_configuration
from kframework_batch.objects import Job
from kframework_batch.program import compile_program
from kframework_batch.scenario import make_job
from kframework_batch.settings import ProgramSettings
from kframework_batch.simulation import create_simulation, podless_jobs

from kframework.clock import SystemClock
from kframework.engine import MemoryCluster
from kframework.testing import make_node

REFUSAL = (
    "'minAvailable' is greater than 'replicas' in task: worker; "
    "job 'minAvailable' should not be greater than total replicas in tasks"
)

TOO_LARGE = (
    "the cluster has no room for its minimum: cpu 20 requested, more than is left of 4800m "
    "(overcommit-factor 1.2 times 4, rounded down); "
    "a smaller minimum, more nodes or a larger overcommit-factor would help"
)


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        (make_job("fits", 2), []),
        (make_job("done", 2, seconds=5.0), []),
        (make_job("half", 20, minimum=1), []),
        (
            make_job("large", 20),
            [f"job default/large waits without pods: {TOO_LARGE}"],
        ),
        (make_job("lost", 1, queue="nowhere"), ["job default/lost waits without pods: there is no queue 'nowhere'"]),
        (
            make_job("odd", 1, minimum=2),
            [f"job default/odd was refused: {REFUSAL}"],
        ),
    ],
    ids=lambda given: given.metadata.name if isinstance(given, Job) else "",
)
def test_jobs_without_pods_have_a_reason(job: Job, lines: list[str]) -> None:
    settings = ProgramSettings(compile_program(default_configuration()))
    with create_simulation([make_node("n", cpu=4), job], settings) as simulation:
        assert list(podless_jobs(simulation.run(20.0).cluster)) == lines


def test_jobs_without_pods_have_no_reason_before_the_first_session() -> None:
    cluster = MemoryCluster(SystemClock(), [make_job("early", 1)])
    assert list(podless_jobs(cluster)) == ["job default/early waits without pods: no session has looked at it yet"]
