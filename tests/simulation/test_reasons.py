"""Every output says why a pod waits that no node rejects: it is gated, its data are stale, or Reserve rejects it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kframework import Plugin, Wait, unschedulable
from kframework.cli.options import Output
from kframework.cli.outcomes import print_outcomes
from kframework.explain.explanation import LateFailure
from kframework.explain.view import PodEngineView
from kframework.framework.source import WhenStale
from kframework.observe.web.pods import list_queues
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin
from tests.support.source_plugins import busy_plugin


def stale_plugin(when_stale: WhenStale) -> type[Plugin]:
    """Make a plugin whose source never delivers."""

    class Load(busy_plugin(when_stale=when_stale)):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            self.load.fetch = self.fetch

        async def fetch(self) -> dict[str, float]:
            raise ConnectionError("no route")

    return Load


NO_DATA = "source 'load' of plugin 'Load' has no data yet: ConnectionError: no route"

#: What turns the pod away; the plugin, its reason, and what `explain` says.
KINDS = {
    "gated by a plugin": (
        plugin("Gate", pre_enqueue=unschedulable("the quota is used up")),
        ("Gate", "the quota is used up", "WAITS FOR Gate: the quota is used up."),
    ),
    "gated by a stale source": (stale_plugin("gate"), ("Load", NO_DATA, f"WAITS FOR Load: {NO_DATA}.")),
    "rejected by a stale source": (stale_plugin("reject"), ("Load", NO_DATA, f"Load    {NO_DATA}")),
    "rejected at Reserve": (
        plugin("Licence", reserve=unschedulable("no licence is free")),
        ("Licence", "no licence is free", "REJECTED at Reserve by Licence in the last attempt"),
    ),
    "rejected at Permit": (
        plugin("Budget", permit=unschedulable("the team is over budget")),
        ("Budget", "the team is over budget", "REJECTED at Permit by Budget in the last attempt"),
    ),
}

#: A simulation at its end, and the plugin, the reason and the text expected in it.
Case = tuple[Simulation, tuple[str, str, str]]


@pytest.fixture(scope="module", params=KINDS.values(), ids=list(KINDS))
def case(request: pytest.FixtureRequest) -> Case:
    """Simulate a pod that one plugin turns away for a minute."""
    rejecting, expected = request.param
    return Simulation([make_node("a"), make_pod("web")], plugins=[rejecting]).run(60.5), expected


def test_tables_name_plugin_and_reason(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    simulation, (rejector, reason, _) = case
    print_outcomes(simulation.result, None)
    assert reason in capsys.readouterr().out
    print_outcomes(simulation.result, Output.WIDE)
    header, row = capsys.readouterr().out.splitlines()
    assert row[header.index("REJECTED BY") :].startswith(f"{rejector}  ")
    assert reason in row[header.index("MESSAGE") :]


def test_json_names_plugin_and_reason(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    simulation, (rejector, reason, _) = case
    print_outcomes(simulation.result, Output.JSON)
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["rejectedBy"] == [rejector]
    assert reason in item["message"]


def test_page_names_plugin_and_reason(case: Case) -> None:
    simulation, (rejector, reason, _) = case
    (pod,) = list_queues(PodEngineView(simulation.scheduler.engine, simulation._records.history)).pods
    assert pod.plugins == (rejector,)
    assert reason in pod.message


def test_report_explains_the_pod(case: Case) -> None:
    simulation, (rejector, reason, _) = case
    data = json.loads(simulation.report().partition('type="application/json">')[2].partition("</script>")[0])
    explained = data["explanations"]["pod"]["default/web"]
    assert rejector in explained["waiting"]["heldBy"] or rejector in explained["lateFailure"]["plugins"]
    assert reason in json.dumps(explained)


def test_explanation_names_plugin_and_point(case: Case) -> None:
    simulation, (_, reason, expected) = case
    text = str(simulation.explain("web"))
    assert expected in text
    assert reason in text


def test_rejection_at_pre_bind_names_the_plugin() -> None:
    disk = plugin("Disk", pre_bind=unschedulable("the disk is lost"))
    simulation = Simulation([make_node("a"), make_pod("web")], plugins=[disk]).run(60.5)
    (outcome,) = simulation.outcomes
    assert (outcome.rejected_by, outcome.message) == (("Disk",), "the disk is lost")
    assert "REJECTED at PreBind by Disk in the last attempt" in str(simulation.explain("web"))


def test_pod_that_waits_on_permit_for_the_first_time_has_failed_nowhere() -> None:
    simulation = Simulation([make_node("a"), make_pod("web")], plugins=[plugin("Gang", permit=Wait(60))]).run(30)
    assert simulation.explain("web").explanation.late_failure is None
    simulation.run(60)
    explanation = simulation.explain("web").explanation
    assert explanation.late_failure == LateFailure("Permit", ("Gang",), rejected=True)
    assert simulation.outcomes[0].rejected_by == ("Gang",)


def test_pod_gated_after_an_attempt_shows_the_gate() -> None:
    gates: list[str] = []
    gate = plugin("Gate", pre_enqueue=lambda pod: unschedulable("closed") if gates else None)
    simulation = Simulation([make_node("a"), make_pod("big", cpu=99)], plugins=[gate]).run()
    gates.append("closed")
    simulation.create(make_node("b", cpu=128))
    simulation.run()
    (outcome,) = simulation.outcomes
    assert (outcome.message, outcome.rejected_by) == ("gated by Gate: closed", ("Gate",))
