"""Both engines run small traces, with known ends: four units on one node."""

from __future__ import annotations

import msgspec
import pytest
from kframework_batch.compare.measures import Measures
from kframework_batch.compare.runs import Trace, run_pods, run_sessions
from kframework_batch.config import default_configuration
from kframework_batch.objects import Job
from kframework_batch.program import compile_program
from kframework_batch.scenario import make_job
from kframework_batch.settings import ProgramSettings
from kframework_batch.testing import make_group, make_queue, make_task

from kframework.config.load import load_configuration
from kframework.objects import ApiObject
from kframework.simulation.timetable import ARRIVES_SECONDS
from kframework.testing import RUN_SECONDS, make_node

SETTINGS = ProgramSettings(compile_program(default_configuration()))
PODS = load_configuration(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "volcano"}],
    }
)


def arriving(seconds: float, job: Job) -> Job:
    metadata = msgspec.structs.replace(job.metadata, annotations={ARRIVES_SECONDS: f"{seconds:g}"})
    return msgspec.structs.replace(job, metadata=metadata)


def both(*objects: ApiObject, duration: float | None = None) -> tuple[Measures, Measures]:
    trace = Trace((make_node("n", cpu=4), *objects))
    return run_pods(trace, PODS, [], SETTINGS, duration)[0], run_sessions(trace, SETTINGS, duration)[0]


def test_gang_that_fits_runs_at_once_with_both_engines() -> None:
    for found in both(arriving(30.0, make_job("train", 4, seconds=60.0))):
        assert (found.completed, found.never_ran, found.evictions, found.resource) == (1, 0, 0, "cpu")
        assert found.gang_waiting.p50 is not None
        assert found.gang_waiting.p50 <= 2.0
        assert found.completion.p50 == pytest.approx(60.0, abs=3.0)
        assert found.last == pytest.approx(90.0, abs=3.0)
        assert found.utilisation == pytest.approx(60 / 91, abs=0.05)


def test_pods_of_a_written_group_are_one_job_of_its_queue() -> None:
    group = make_group("train", minimum=3, queue="research", phase="")
    pods = [make_task(f"train-{n}", "train", annotations={RUN_SECONDS: "60"}) for n in range(3)]
    for found in both(make_queue("research"), group, *pods):
        assert (found.jobs, found.completed, found.never_ran) == (1, 1, 0)
        assert [queue.queue for queue in found.queues] == ["research"]
        assert found.completion.p50 == pytest.approx(60.0, abs=3.0)


def test_written_group_without_room_for_its_minimum_never_runs() -> None:
    group = make_group("large", minimum=6, phase="")
    pods, sessions = both(group, *(make_task(f"large-{n}", "large") for n in range(6)), duration=60.0)
    assert (pods.jobs, pods.never_ran, sessions.jobs, sessions.never_ran) == (1, 1, 1, 1)
    assert (pods.half_gangs > 0.9, sessions.half_gangs) == (True, 0.0)


def test_incomplete_gang_holds_room_only_in_the_pod_engine_without_gang_plugin() -> None:
    pods, sessions = both(make_job("large", 6, seconds=None), arriving(10.0, make_job("small", 4, seconds=50.0)))
    assert (pods.completed, pods.never_ran, sessions.completed, sessions.never_ran) == (0, 2, 1, 1)
    assert pods.half_gangs > 0.9
    assert sessions.half_gangs < 0.05


def test_same_trace_has_the_same_measures_except_cpu_time() -> None:
    def numbers() -> list[Measures]:
        found = both(make_job("a", 3, seconds=20.0), arriving(5.0, make_job("b", 3, seconds=20.0)), duration=100.0)
        return [msgspec.structs.replace(each, cpu_seconds=0.0) for each in found]

    assert numbers() == numbers()


def test_job_that_arrives_after_a_long_pause_runs() -> None:
    for found in both(arriving(9000.0, make_job("late", 1, seconds=60.0))):
        assert found.completed == 1
        assert found.last == pytest.approx(9060.0, abs=3.0)


def test_scarcest_resource_has_the_highest_demand() -> None:
    job = make_job("a", 4, requests={"example.com/gpu": 1})
    assert Trace((make_node("n", cpu=8, allocatable={"example.com/gpu": 2}), job)).scarcest == "example.com/gpu"
