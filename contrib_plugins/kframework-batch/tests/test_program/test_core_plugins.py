"""What predicates and nodeorder have the core asked, and when its memory answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kframework_batch.action import Action
from kframework_batch.config import default_configuration, parse
from kframework_batch.job import TaskInfo
from kframework_batch.program import compile_program, core_configuration
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang, make_node, make_task

from kframework.config.configuration import Configuration
from kframework.config.show import effective
from kframework.core.runtime.registry import load_in_tree_args
from kframework.objects import Affinity, LabelSelector, Pod, PodAffinityTerm, PodAntiAffinity

ALL = (
    "NodeUnschedulable TaintToleration NodeAffinity NodePorts VolumeRestrictions NodeVolumeLimits VolumeBinding "
    "VolumeZone PodTopologySpread InterPodAffinity DynamicResources"
).split()
DEFAULTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


def configured(plugins: str) -> Configuration:
    text = f"actions: allocate\ntiers: [{{plugins: [{plugins}]}}]"
    return core_configuration(compile_program(parse(text)), ["volcano", "other"], seed=7)


def names(configuration: Configuration, point: str) -> list[str]:
    return [entry.name for entry in getattr(configuration.profiles[0].plugins, point).enabled]


def weights(configuration: Configuration) -> dict[str, int]:
    return {entry.name: entry.weight or 1 for entry in configuration.profiles[0].plugins.score.enabled}


def test_all_core_plugins_are_enabled_by_default() -> None:
    made = core_configuration(compile_program(default_configuration()), ["volcano", "other"], seed=7)
    assert [profile.scheduler_name for profile in made.profiles] == ["volcano", "other"]
    assert made.options.seed == 7
    assert names(made, "filter") == ALL
    assert weights(made) == DEFAULTS
    assert names(made, "reserve") == names(made, "pre_bind") == ["VolumeBinding", "DynamicResources"]
    effective(made, load_in_tree_args(made))


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        ("predicate.NodeAffinityEnable: false", "NodeAffinity"),
        ("predicate.TaintTolerationEnable: 'false'", "TaintToleration"),
        ("predicate.NodePortsEnable: no", "NodePorts"),
        ("predicate.PodAffinityEnable: false", "InterPodAffinity"),
        ("predicate.VolumeRestrictionsEnable: false", "VolumeRestrictions"),
        ("predicate.NodeVolumeLimitsEnable: false", "NodeVolumeLimits"),
        ("predicate.VolumeZoneEnable: false", "VolumeZone"),
        ("predicate.PodTopologySpreadEnable: false", "PodTopologySpread"),
        ("predicate.VolumeBindingEnable: false", "VolumeBinding"),
        ("predicate.DynamicResourceAllocationEnable: false", "DynamicResources"),
    ],
)
def test_disabled_core_filters_are_left_out(arguments: str, missing: str) -> None:
    made = configured(f"{{name: predicates, arguments: {{{arguments}}}}}")
    assert names(made, "filter") == [name for name in ALL if name != missing]


def test_core_score_of_weight_zero_is_left_out() -> None:
    arguments = "leastrequested.weight: 0, mostrequested.weight: 5, imagelocality.weight: 0, podaffinity.weight: '3'"
    made = configured(f"{{name: nodeorder, arguments: {{{arguments}}}}}")
    expected = {name: weight for name, weight in DEFAULTS.items() if name not in ("NodeResourcesFit", "ImageLocality")}
    assert weights(made) == {**expected, "MostAllocated": 5, "InterPodAffinity": 3}


def test_no_core_plugins_without_predicates_and_nodeorder() -> None:
    made = configured("{name: gang}")
    assert names(made, "filter") == [] and weights(made) == {}


def full(name: str) -> Stage:
    """Set a stage on which only where there is room counts, by preferring full nodes or empty ones."""
    weights = {"mostrequested": "leastrequested.weight: 0, mostrequested.weight: 1", "leastrequested": ""}[name]
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: gang}}, {{name: nodeorder, arguments: {{{weights}}}}}]}}]"
    nodes = [make_node("used", cpu=8, memory="8Gi"), make_node("free", cpu=8, memory="8Gi")]
    old = make_gang("old", 1, on=["used"], cpu=4, queue="default")
    return Stage(text, nodes=nodes, gangs=[old, make_gang("new", 1, cpu=1)]).session()


def test_most_allocated_prefers_full_nodes() -> None:
    assert full("mostrequested").bound == {"new-0": "used"}
    assert full("leastrequested").bound == {"new-0": "free"}


def remembered(pod: Pod, *others: Pod, nodes: tuple[Any, ...] = ()) -> tuple[bool, bool]:
    """Return whether memory answers for a pod: before and after a pod with terms of its own has come to a node."""
    seen: list[bool] = []

    def script(session: Session) -> None:
        tasks: dict[str, TaskInfo] = {
            task.name: task for job in session.jobs.values() for task in job.with_status(TaskStatus.PENDING).values()
        }
        seen.append(session.core.cached_answers(tasks["asks"]) is not None)
        with session.statement() as statement:
            if "shy" in tasks:
                assert statement.allocate(tasks["shy"], "n1") is None
            seen.append(session.core.cached_answers(tasks["asks"]) is not None)
        assert (session.core.cached_answers(tasks["asks"]) is not None) is seen[0]

    play(script, [pod, *others], nodes or (make_node("n1"), make_node("n2")))
    before, after = seen
    return before, after


def play(
    script: Callable[[Session], None],
    pods: list[Pod],
    nodes: tuple[Any, ...],
    plugins: str = "{name: predicates}, {name: nodeorder}",
) -> None:
    class Scripted(Action):
        name = "scripted"

        def run(self, session: Session) -> Iterator[None]:
            script(session)
            yield

    text = f"actions: scripted\ntiers: [{{plugins: [{plugins}]}}]"
    Stage(text, nodes=nodes, gangs=[(make_gang("g", 0)[0], pods)], classes=[Scripted]).session()


def shy(name: str, app: str) -> Pod:
    selector = LabelSelector(match_labels={"app": app})
    term = PodAffinityTerm(label_selector=selector, topology_key="kubernetes.io/hostname")
    anti = PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return make_task(name, "g", affinity=Affinity(pod_anti_affinity=anti))


@pytest.mark.parametrize(
    ("pod", "others", "nodes", "answers"),
    [
        (make_task("asks", "g"), [], (), (True, True)),
        (make_task("asks", "g", labels={"app": "x"}), [shy("shy", "x")], (), (True, False)),
        (make_task("asks", "g", labels={"app": "y"}), [shy("shy", "x")], (), (True, True)),
        (shy("asks", "x"), [], (), (False, False)),
        (
            make_task("asks", "g"),
            [],
            (make_node("n1", taints=["a=b:PreferNoSchedule"]), make_node("n2")),
            (False, False),
        ),
    ],
    ids=["plain", "others mind it", "others do not mind it", "minds others", "one node is worse"],
)
def test_cached_answers_are_used_where_no_other_pod_or_node_matters(
    pod: Pod, others: list[Pod], nodes: tuple[Any, ...], answers: tuple[bool, bool]
) -> None:
    assert remembered(pod, *others, nodes=nodes) == answers


def test_search_from_a_discarded_statement_is_not_reused() -> None:
    """No layer reads pods here, so that the logs are cut back, and come to the same end with another content."""
    seen: list[str] = []

    def script(session: Session) -> None:
        tasks = {task.name: task for job in session.jobs.values() for task in job.tasks.values()}
        for name, node in (("one", "n1"), ("two", "n2")):
            with session.statement() as statement:
                assert statement.allocate(tasks[name], node) is None
                choice = session.placement.choose(tasks["shy"])
                assert not isinstance(choice, str)
                seen.append(choice.node)

    arguments = "arguments: {predicate.NodePortsEnable: false}"
    pods = [make_task(name, "g", labels={"app": "x"}) for name in ("one", "two")]
    play(script, [*pods, shy("shy", "x")], (make_node("n1"), make_node("n2")), f"{{name: predicates, {arguments}}}")
    assert seen == ["n2", "n1"]
