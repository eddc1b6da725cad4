"""Metrics of PodGroups: their attempts, and the queue that counts them as one."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kframework import Simulation
from kframework.objects import ApiObject, LabelSelector, ObjectMeta, PodDisruptionBudget, PodDisruptionBudgetSpec
from kframework.observe.metrics.engine_metrics import engine_series
from kframework.observe.metrics.metrics import Metrics
from kframework.testing import make_node, make_pod
from tests.observe.metrics.exposition import samples, text
from tests.support.groups import GROUPS, PLACEMENTS, gang, in_one, members, nodes, on_nodes, whole

CLUSTER: tuple[ApiObject, ...] = (
    *nodes(1),
    gang("red", 2),
    gang("blue", 3),
    *members("red", 2),
    *members("blue", 3),
    *members("lost", 1),
    make_pod("huge", cpu=99),
)


def measured(objects: Sequence[ApiObject] = CLUSTER, seconds: float = 5) -> dict[str, float]:
    metrics = Metrics()
    with Simulation(objects, config=GROUPS, observers=[metrics.attempts]) as simulation:
        simulation.run(seconds)
        return samples(text((*metrics.attempts.series, *engine_series(simulation.scheduler.engine))))


def test_attempts_of_groups_count_once_for_each_group() -> None:
    values = measured()
    attempts = "scheduler_podgroup_schedule_attempts_total"
    assert values[f'{attempts}{{profile="default-scheduler",result="scheduled"}}'] == 1
    assert values[f'{attempts}{{profile="default-scheduler",result="unschedulable"}}'] == 1
    durations = "scheduler_podgroup_scheduling_attempt_duration_seconds_count"
    assert values[f'{durations}{{profile="default-scheduler",result="scheduled"}}'] == 1
    assert values["scheduler_podgroup_scheduling_algorithm_duration_seconds_count"] == 2


def test_placements_are_counted_by_whether_the_group_fits() -> None:
    metrics, profile = Metrics(), 'profile="default-scheduler"'
    racks = [make_node(rack, cpu=cpu, labels={"rack": rack}) for rack, cpu in (("a", 3), ("b", 3), ("c", 1))]
    objects = [*racks, in_one("rack", gang("g", 2)), *members("g", 2)]
    with Simulation(objects, config=PLACEMENTS, observers=[metrics.attempts]) as simulation:
        simulation.run(0.5)
    values = samples(text(metrics.attempts.series))
    assert values[f"scheduler_generated_placements_total{{{profile}}}"] == 3
    for result, count in (("feasible", 2), ("infeasible", 1)):
        labels = f'{{{profile},result="{result}"}}'
        assert values[f"scheduler_placement_evaluations_total{labels}"] == count
        assert values[f"scheduler_placement_evaluation_duration_seconds_count{labels}"] == count


def test_metrics_of_placements_are_absent_without_the_gate() -> None:
    assert not [name for name in measured() if "_placement" in name]


def test_group_that_waits_for_victims_has_a_result_of_its_own_and_its_pods_preempt_nobody() -> None:
    low = on_nodes([make_pod("low", cpu=4, priority=0)])
    values = measured([*nodes(1), *low, gang("g", 2, priority=9), *members("g", 2, priority=9)], seconds=0.1)
    attempts = "scheduler_podgroup_schedule_attempts_total"
    assert values[f'{attempts}{{profile="default-scheduler",result="waiting_on_preemption"}}'] == 1
    assert values["scheduler_preemption_victims_count"] == 0
    point = 'extension_point="PodGroupPostFilter",profile="default-scheduler",status="Success"'
    assert values[f"scheduler_framework_extension_point_duration_seconds_count{{{point}}}"] == 1


def preempted(*groups: ApiObject, low: Sequence[ApiObject], high: Sequence[ApiObject]) -> dict[str, float]:
    """Simulate a preemption of these pods for those; return what the metrics about preemption show."""
    metrics = Metrics()
    with Simulation([*nodes(2), *groups, *low], config=GROUPS, observers=[metrics.attempts]) as simulation:
        metrics.attach(simulation.scheduler.engine)
        simulation.run(1)
        for each in high:
            simulation.create(each)
        simulation.run(40)
        return samples(text(metrics.preemptions.series))


def test_preemption_by_a_group_counts_its_victims_and_how_long_it_took() -> None:
    low = on_nodes(members("low", 2, cpu="3"))
    budget = PodDisruptionBudget(
        metadata=ObjectMeta(name="low", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "low"})),
    )
    low = [replace(pod, metadata=replace(pod.metadata, labels={"app": "low"})) for pod in low]
    groups = whole(gang("low", 2)), gang("high", 2, priority=9), budget
    values = preempted(*groups, low=low, high=members("high", 2, cpu="3", priority=9))
    assert values['scheduler_workload_preemption_attempts_total{result="Success"}'] == 1
    assert values["scheduler_workload_preemption_victims_sum"] == 2
    assert values['scheduler_preemption_workload_disruptions_sum{preemptor="podgroup"}'] == 1
    assert values['scheduler_preemption_pdb_violations_total{preemptor="podgroup"}'] == 2
    evaluation = "scheduler_preemption_evaluation_duration_seconds_count"
    assert values[f'{evaluation}{{preemptor="podgroup",result="Success"}}'] == 1
    execution = "scheduler_preemption_execution_duration_seconds_count"
    assert values[f'{execution}{{preemptor="podgroup",result="success"}}'] == 1


def test_preemption_by_a_pod_counts_the_pods_of_groups_that_it_disrupts() -> None:
    low = on_nodes(members("low", 2, cpu="3"))
    values = preempted(gang("low", 1), low=low, high=[make_pod("high", cpu="3", priority=9)])
    assert values['scheduler_preemption_workload_disruptions_sum{preemptor="pod"}'] == 1
    execution = "scheduler_preemption_execution_duration_seconds_count"
    assert values[f'{execution}{{preemptor="pod",result="success"}}'] == 1
    assert "scheduler_workload_preemption_victims_sum" not in values


def test_group_that_may_not_preempt_counts_as_an_attempt_without_evaluation() -> None:
    low = on_nodes([make_pod("low", cpu=4, priority=0)])
    high = members("high", 2, cpu="3", priority=9)
    never = [replace(pod, spec=replace(pod.spec, preemption_policy="Never")) for pod in high]
    values = preempted(gang("high", 2, priority=9), low=low, high=never)
    assert list(values) == ['scheduler_workload_preemption_attempts_total{result="Unschedulable"}']


def test_metrics_of_preemption_are_absent_without_the_gate() -> None:
    metrics = Metrics()
    low = on_nodes([make_pod("low", cpu="3", priority=0)])
    objects = [*nodes(1), *low, make_pod("high", cpu="3", priority=9)]
    with Simulation(objects, observers=[metrics.attempts]) as simulation:
        metrics.attach(simulation.scheduler.engine)
        simulation.run(40)
        assert samples(text(metrics.attempts.series))["scheduler_preemption_victims_sum"] == 1
    assert text(metrics.preemptions.series) == ""


def test_queue_counts_pods_of_groups_as_pods_and_groups_as_entities() -> None:
    values = measured()
    assert values['scheduler_pending_pods{queue="unschedulable"}'] == 4
    assert values['scheduler_pending_pods{queue="incomplete"}'] == 1
    assert values['scheduler_pending_pods{queue="pending"}'] == 0
    assert values['scheduler_queued_entities{queue="unschedulable",type="podgroup"}'] == 1
    assert values['scheduler_queued_entities{queue="unschedulable",type="pod"}'] == 1


def test_entering_groups_are_counted_by_type() -> None:
    values = measured()
    failure = 'event="ScheduleAttemptFailure",queue="unschedulable"'
    assert values[f"scheduler_queue_incoming_pods_total{{{failure}}}"] == 4
    assert values[f'scheduler_queue_incoming_entities_total{{{failure},type="pod"}}'] == 1
    assert values[f'scheduler_queue_incoming_entities_total{{{failure},type="podgroup"}}'] == 1


def test_metrics_of_groups_are_absent_without_groups() -> None:
    metrics = Metrics()
    with Simulation([*nodes(1), make_pod("alone")], observers=[metrics.attempts]) as simulation:
        simulation.run(5)
        shown = text((*metrics.attempts.series, *engine_series(simulation.scheduler.engine)))
    assert "podgroup" not in shown and "incomplete" not in shown.replace("also incomplete", "")
