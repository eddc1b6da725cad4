"""A simulation is stepped through, looked into and changed; at once or step by step it comes to the same."""

from __future__ import annotations

import dataclasses
import re
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

import kframework
from kframework import ClusterError, ConfigError, ExplainError, InputError, Simulation
from kframework.objects import (
    Deployment,
    DeploymentSpec,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    StatefulSet,
    StatefulSetSpec,
)
from kframework.objects.workloads import WorkloadPodTemplate
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin

MINE = plugin("Mine", filter=kframework.unschedulable("node(s) were not mine"))
DOCUMENT = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}],
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {pods: '9'}}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{name: c}]}\n"
    )
    return file


def test_simulation_takes_a_file_or_objects(cluster: Path) -> None:
    for objects in (cluster, str(cluster), [make_node("a"), make_pod("pod")]):
        assert [outcome.node for outcome in kframework.simulate(objects).outcomes] == ["a"]
        (outcome,) = kframework.simulate(objects, plugins=[MINE]).outcomes
        assert "1 node(s) were not mine" in outcome.message


def test_configuration_selects_the_plugins(tmp_path: Path, cluster: Path, caplog: pytest.LogCaptureFixture) -> None:
    (outcome,) = kframework.simulate(cluster, DOCUMENT, plugins=[MINE]).outcomes
    assert outcome.node is None and caplog.messages == []
    file = tmp_path / "config.yaml"
    file.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    (outcome,) = kframework.simulate(cluster, file, plugins=[MINE]).outcomes
    assert outcome.node == "a"
    assert [message.partition(",")[0] for message in caplog.messages] == ["no profile enables plugin 'Mine'"]
    with pytest.raises(ConfigError, match="there is no plugin"):
        kframework.simulate(cluster, DOCUMENT)


def test_seed_changes_the_choice_among_ties() -> None:
    objects = [*(make_node(name) for name in "abcdef"), *(make_pod(f"p{number}") for number in range(12))]
    first, second, other = ([each.node for each in kframework.simulate(objects, seed=n).outcomes] for n in (1, 1, 2))
    assert first == second != other


def test_devices_file_needs_a_cluster_file() -> None:
    with pytest.raises(InputError, match=r"load\(\) reads both"):
        Simulation([make_node("a")], devices="devices.yaml")


def test_step_runs_one_attempt() -> None:
    with Simulation([make_node("a", cpu=1), make_pod("one", cpu=1), make_pod("two", cpu=1)]) as simulation:
        assert repr(simulation) == "<Simulation: 0 of 2 pods bound, 0 s of virtual time, not at its end>"
        steps = [simulation.step() for _ in range(3)]
        assert [step and (step.pod, step.node) for step in steps] == [("default/one", "a"), ("default/two", ""), None]
        assert repr(simulation) == "<Simulation: 1 of 2 pods bound, 0 s of virtual time>"
        assert [each.pod for each in simulation.bindings] == ["default/one"]


def test_step_runs_one_attempt_where_pods_could_be_scheduled_as_a_run() -> None:
    alike = [make_pod(f"p{number}") for number in range(9)]
    with Simulation([make_node("a"), *alike]) as simulation:
        assert [simulation.step() and len(simulation.decisions) for _ in range(3)] == [1, 2, 3]
        simulation.run()
        assert [each.attempt for each in simulation.decisions] == list(range(1, 10))


def test_run_passes_the_given_seconds() -> None:
    with Simulation([make_node("a"), make_pod("one", annotations={"kframework.dev/run-seconds": "60"})]) as simulation:
        assert simulation.run(50).seconds == 50
        assert simulation.outcomes[0].phase == "Running"
        assert simulation.run(50).seconds == 100
        assert simulation.outcomes[0].phase == "Succeeded"
    assert kframework.simulate([make_node("a")], duration=90).seconds == 90


def test_cluster_can_be_changed_between_two_steps() -> None:
    with Simulation([make_node("a", cpu=1), make_pod("big", cpu=2)]) as simulation:
        assert simulation.run().outcomes[0].node is None
        simulation.create(make_node("b", cpu=4))
        assert simulation.run().outcomes[0].node == "b"
        simulation.patch(Node, "a", {"spec": {"unschedulable": True}}, namespace="")
        assert [node.spec.unschedulable for node in simulation.objects(Node)] == [True, False]
        simulation.delete(Pod, "big")
        assert len(simulation.run(60).outcomes) == 0
        with pytest.raises(ClusterError):
            simulation.delete(Pod, "big")


def test_closed_simulation_has_its_results() -> None:
    simulation = kframework.simulate([make_node("a"), make_pod("pod")])
    simulation.close()
    assert simulation.is_over
    assert simulation.explain("pod").explanation.node == "a"
    assert simulation.report("A title").startswith("<!doctype html>")


def test_unreferenced_simulation_is_closed() -> None:
    simulation = Simulation([make_node("a"), make_pod("one"), make_pod("two")])
    simulation.step()
    loop, dropped = simulation._run._loop, weakref.ref(simulation)
    del simulation
    assert dropped() is None
    assert loop.is_closed()


def test_simulation_explains_a_pod_in_its_current_state() -> None:
    with Simulation([make_node("a", cpu=1), make_pod("big", cpu=2)]) as simulation:
        simulation.run()
        assert "Insufficient cpu" in str(simulation.explain("big"))
        assert simulation.explain("default/big").to_dict()["pod"] == "default/big"
        with pytest.raises(ExplainError, match="default/none"):
            simulation.explain("none")


@pytest.mark.parametrize("pod", ["web-1", "cache-4", "checkout", "default/database"])
def test_run_and_explain_has_the_choice_of_the_decision_and_all_else_of_the_end(pod: str) -> None:
    file = Path(__file__).parents[2] / "examples/clusters/shop.yaml"
    explanation = Simulation(file).run_and_explain(pod).explanation
    now = Simulation(file).run().explain(pod).explanation
    unmeasured = {"choice": None, "last_decision": None, "binding": None}
    assert replace(explanation, **unmeasured) == replace(now, **unmeasured)
    choice, last = explanation.choice, explanation.last_decision
    assert last is not None
    assert (choice is not None) == bool(last.best_nodes)
    if choice is not None:
        assert choice.at_decision
        assert ((choice.node, choice.total), (choice.runner_up, choice.runner_up_total)) == last.best_nodes[:2]


def test_simulation_html_shows_summary_nodes_and_pods() -> None:
    html = kframework.simulate([make_node("a"), make_pod("pod")])._repr_html_()
    assert html.startswith("<p>1 of 1 pod bound, 0 s of virtual time</p><svg ")
    assert re.search(r">default/pod</td><td[^>]*>a</td>", html)


def test_simulation_dictionaries_are_those_of_the_pods() -> None:
    simulation = kframework.simulate([make_node("a"), make_pod("pod")])
    (found,) = simulation.to_dicts()
    assert (found["pod"], found["node"], found["attempts"]) == ("default/pod", "a", 1)


def frame(rows: Sequence[object]) -> list[dict[str, object]]:
    """Return the rows that `pandas.DataFrame` makes of a sequence, by its rules for the first element."""
    first = rows[0]
    if dataclasses.is_dataclass(first):
        return [dataclasses.asdict(row) for row in rows]  # type: ignore[call-overload]  # as pandas does
    assert isinstance(first, Mapping), "pandas takes the fields of any other element for columns without names"
    columns = list(dict.fromkeys(column for row in rows for column in row.keys()))  # type: ignore[attr-defined]
    return [dict(zip(columns, map(dict(row).get, columns), strict=True)) for row in rows]  # type: ignore[call-overload]


def test_decisions_make_a_data_frame() -> None:
    simulation = kframework.simulate([make_node("a"), make_node("b"), make_pod("web"), make_pod("huge", cpu=99)])
    web, huge = frame(simulation.decisions)
    assert (web["pod"], web["result"], web["node"]) == ("default/web", "scheduled", simulation.outcomes[0].node)
    assert isinstance(web["score"], int)
    assert (huge["result"], huge["score"]) == ("unschedulable", None)
    assert huge["reasons"] == {"Insufficient cpu": 2}
    assert frame(simulation.decisions) == simulation.decisions.to_dicts()
    assert [row["code"] for row in frame(simulation.bindings)] == [0]
    assert [row["pod"] for row in frame(simulation.outcomes)] == ["default/web", "default/huge"]


@pytest.mark.parametrize("is_stateful", [False, True])  # their controllers start one after the other
def test_a_workload_created_later_gets_its_pods(is_stateful: bool) -> None:
    template = WorkloadPodTemplate(
        metadata=ObjectMeta(labels={"app": "web"}), spec={"containers": [{"name": "c", "image": "web"}]}
    )
    selector = LabelSelector(match_labels={"app": "web"})
    with Simulation([make_node("a"), make_pod("p")]) as simulation:
        simulation.run()
        if not is_stateful:
            spec = DeploymentSpec(replicas=2, selector=selector, template=template)
            simulation.create(Deployment(metadata=ObjectMeta(name="web"), spec=spec))
        else:
            sets = StatefulSetSpec(replicas=2, selector=selector, template=template)
            simulation.create(StatefulSet(metadata=ObjectMeta(name="web"), spec=sets))
        assert [pod.spec.node_name for pod in simulation.run().objects(Pod)] == ["a"] * 3
        assert next(outcome.pod for outcome in simulation.outcomes) == "default/p"
