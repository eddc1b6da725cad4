"""What is counted of jobs: it says what there is, and not what a session tries."""

from __future__ import annotations

from kframework_batch.objects import PodGroup
from kframework_batch.session_metrics import JobMetrics
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_node, make_queue

from kframework.clock import VIRTUAL_EPOCH
from kframework.observe.metrics.series import format_series


def stage() -> Stage:
    """Let a gang run on half of the cluster, and one lack room."""
    gangs = [make_gang("runs", 2, on=["n", "n"], age=5.0), make_gang("large", 9, queue="a")]
    plain = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]'
    return Stage(plain, nodes=[make_node("n", cpu=4)], queues=[make_queue("a")], gangs=gangs)


def metrics(made: Stage) -> JobMetrics:
    return JobMetrics(made.engine, lambda: made.accounts[-1].capacity)


def shown(counted: JobMetrics) -> str:
    return "".join(text for series in counted.series for text in format_series(series))


def test_job_metrics_have_shares_and_phases() -> None:
    text = shown(metrics(stage().session()))
    assert 'volcano_job_share{job_ns="default",job_id="runs"} 0.5\n' in text
    assert 'volcano_job_share{job_ns="default",job_id="large"} 0' in text
    labels = 'job_name="runs",queue="default",job_namespace="default"'
    assert f"volcano_e2e_job_scheduling_start_time{{{labels}}} {VIRTUAL_EPOCH - 5.0}\n" in text
    for phase, queue, count in (("running", "default", 1), ("running", "a", 0), ("inqueue", "a", 1)):
        assert f'volcano_queue_pod_group_{phase}_count{{queue_name="{queue}"}} {count}\n' in text


def test_job_metrics_are_unchanged_while_a_session_is_open() -> None:
    made = stage()
    made.put(make_gang("more", 9, minimum=9)[0])
    for pod in make_gang("more", 9)[1]:
        made.put(pod)
    made.session()
    counted = metrics(made)
    before = shown(counted)
    made.put(make_queue("b"))
    made.time += 1.0
    assert made.engine.step()
    while not made.job("more").count(TaskStatus.ALLOCATED):
        assert made.engine.step()
    assert shown(counted) == before


def test_deleted_objects_have_no_series() -> None:
    made = stage().session()
    counted = metrics(made)
    assert '"large"' in shown(counted)
    made.delete("large", PodGroup)
    for n in range(9):
        made.delete(f"large-{n}")
    made.session()
    assert '"large"' not in shown(counted)
