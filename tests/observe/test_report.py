"""A report is one file with everything in it, bounded; a simulation writes it in its end."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kframework.clock import VIRTUAL_EPOCH
from kframework.explain import view
from kframework.explain.view import PodEngineView
from kframework.objects import ApiObject
from kframework.observe import report
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.explain.scene import Scene


def data_of(html: str) -> Any:
    (found,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
    return json.loads(found)


def written(*objects: ApiObject) -> Any:
    """Simulate, and return the data of the report."""
    with Simulation(objects, timed_share=1.0) as simulation:
        return data_of(simulation.run().report("A demo"))


def test_report_has_the_final_state_of_a_simulation() -> None:
    found = written(make_node("a"), make_pod("fits"), make_pod("huge", cpu=99))
    assert (found["title"], found["start"]) == ("A demo", VIRTUAL_EPOCH)
    assert (found["summary"]["nodes"], found["summary"]["attempts"]) == (1, 2)
    assert [pod["pod"] for pod in found["queues"]["pods"]] == ["default/huge"]
    assert [(each["pod"], each["node"]) for each in found["attempts"]["decisions"]] == [
        ("default/huge", ""),
        ("default/fits", "a"),
    ]
    assert [each["node"] for each in found["attempts"]["bindings"]] == ["a"]
    assert found["nodes"]["names"] == ["a"]
    assert [pod["pod"] for pod in found["nodePods"]["a"]["pods"]] == ["default/fits"]
    fit = next(each for each in found["profiles"][0]["plugins"] if each["name"] == "NodeResourcesFit")
    assert "filter" in [time["point"] for time in fit["times"]]


def test_report_explains_pods_that_wait() -> None:
    found = written(make_node("a"), make_pod("fits"), make_pod("huge", cpu=99), make_pod("gated", gates=["quota"]))
    assert found["explanations"]["pod"].keys() == {"default/huge", "default/gated"}
    huge = found["explanations"]["pod"]["default/huge"]
    assert (huge["state"], huge["assessment"]["reasons"]) == ("unschedulable", {"Insufficient cpu": 1})
    assert [remedy["text"] for remedy in huge["remedies"]] != []


def test_report_of_an_empty_simulation_works() -> None:
    found = written()
    assert (found["nodes"]["names"], found["explanations"], found["attempts"]["decisions"]) == ([], {"pod": {}}, [])


def test_report_is_limited_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_ATTEMPTS", 3)
    monkeypatch.setattr(report, "MAX_PODS", 4)
    monkeypatch.setattr(report, "MAX_EXPLANATIONS", 2)
    monkeypatch.setattr(report, "MAX_NODES", 1)
    found = written(make_node("a"), make_node("b"), *(make_pod(f"huge-{number}", cpu=99) for number in range(6)))
    assert len(found["attempts"]["decisions"]) == 3
    assert len(found["queues"]["pods"]) == 4 and found["queues"]["total"] == 6
    assert len(found["explanations"]["pod"]) == 2
    assert found["nodePods"] == {} and found["nodes"]["names"] == ["a", "b"]
    assert found["summary"]["counted"] == found["profiles"][0]["attempts"] == 6


def test_report_explains_one_pod_per_message_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_EXPLANATIONS", 3)
    pods = [make_pod("a", cpu=99), make_pod("b", cpu=99), make_pod("c", cpu=98), make_pod("d", memory="9Ti")]
    scene = Scene(make_node("n"), *pods).settle()
    found = data_of(report.report(PodEngineView(scene.engine, scene.history), title="t"))
    assert list(found["explanations"]["pod"]) == ["default/a", "default/d", "default/b"]


def test_report_explains_fewer_pods_with_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MAX_EVALUATIONS", 3)
    monkeypatch.setattr(view, "_MIN_EXPLANATIONS", 1)
    scene = Scene(make_node("n"), make_node("m"), *(make_pod(name, cpu=99) for name in "abcd")).settle()
    assert (
        len(data_of(report.report(PodEngineView(scene.engine, scene.history), title="t"))["explanations"]["pod"]) == 1
    )


def test_report_without_a_start_has_times_of_day() -> None:
    scene = Scene().settle()
    assert data_of(report.report(PodEngineView(scene.engine, scene.history), title="t"))["start"] is None


def test_report_does_not_change_the_scheduler() -> None:
    one, other = (Scene(make_node("a"), make_pod("fits"), make_pod("huge", cpu=99)).settle() for _ in range(2))
    report.report(PodEngineView(one.engine, one.history), title="t")
    for scene in (one, other):
        scene.time += 400
        scene.settle()
    assert [each.message for each in one.history.recent(9)] == [each.message for each in other.history.recent(9)]
    assert one.engine.queue.count_by_queue() == other.engine.queue.count_by_queue()
