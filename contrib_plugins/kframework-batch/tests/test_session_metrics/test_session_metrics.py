"""What is counted of sessions: it says what their accounts say."""

from __future__ import annotations

from kframework_batch.objects import Queue
from kframework_batch.session_metrics import SessionMetrics
from kframework_batch.testing import Stage, make_gang, make_node, make_queue

from kframework.objects import ObjectMeta, PriorityClass
from kframework.observe.metrics.series import format_series

FAIR = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def shown(metrics: SessionMetrics) -> str:
    return "".join(text for series in metrics.series for text in format_series(series))


def observed(stage: Stage, metrics: SessionMetrics) -> str:
    stage.session()
    metrics.on_account(stage.accounts[-1])
    return shown(metrics)


def test_session_metrics_equal_the_account() -> None:
    metrics = SessionMetrics()
    queues = [make_queue("a", weight=3), make_queue("b")]
    gangs = [make_gang("train", 4, queue="a"), make_gang("small", 1, queue="b")]
    stage = Stage(FAIR, nodes=[make_node("n1", cpu=4)], queues=queues, gangs=gangs)
    text = observed(stage, metrics)
    for state in stage.accounts[-1].queues:
        label = f'{{queue_name="{state.queue}"}}'
        assert f"volcano_queue_weight{label} {state.weight}\n" in text
        assert f"volcano_queue_share{label} {state.share}\n" in text
        assert f"volcano_queue_allocated_milli_cpu{label} {state.allocated.get('cpu', 0)}\n" in text
        assert f"volcano_queue_request_milli_cpu{label} {state.requested.get('cpu', 0)}\n" in text
        assert f"volcano_queue_deserved_milli_cpu{label} {state.deserved.get('cpu', 0)}\n" in text
    assert 'volcano_unschedule_task_count{job_id="default/train"} 4\n' in text
    assert "volcano_unschedule_job_count 1\n" in text
    assert 'volcano_job_retry_counts{job_id="default/train"} 1\n' in text
    assert f'volcano_schedule_attempts_total{{result="scheduled"}} {len(stage.bound)}\n' in text
    assert "volcano_open_session_duration_milliseconds_count 1\n" in text
    assert 'volcano_action_scheduling_latency_milliseconds_count{action="allocate"} 1\n' in text
    assert (
        'volcano_plugin_scheduling_latency_milliseconds_count{plugin="proportion",OnSession="OnSessionOpen"} 1\n'
        in text
    )
    assert 'volcano_job_retry_counts{job_id="default/train"} 2\n' in observed(stage, metrics)


def test_victims_are_counted() -> None:
    low = make_gang("low", 2, minimum=0, on=["n1", "n1"])
    urgent = make_gang("urgent", 1, priority_class="high")
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=100)
    plain = FAIR.replace("{name: proportion}, ", "")
    stage = Stage(plain, nodes=[make_node("n1", cpu=2)], gangs=[low, urgent], objects=[high])
    text = observed(stage, SessionMetrics())
    assert f"volcano_pod_preemption_victims {len(stage.evicted)}\n" in text
    assert len(stage.evicted) == 1
    assert "volcano_total_preemption_attempts 1\n" in text
    assert 'volcano_eviction_transactions_total{action="preempt"} 1\n' in text


def test_deleted_objects_have_no_series() -> None:
    metrics = SessionMetrics()
    stage = Stage(FAIR, nodes=[make_node("n1", cpu=4)], queues=[make_queue("a")], gangs=[make_gang("train", 9)])
    text = observed(stage, metrics)
    assert 'queue_name="a"' in text and "default/train" in text
    stage.delete("a", Queue)
    for n in range(9):
        stage.delete(f"train-{n}")
    text = observed(stage, metrics)
    assert 'queue_name="a"' not in text and "default/train" not in text
