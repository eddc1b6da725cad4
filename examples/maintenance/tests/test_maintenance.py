"""Maintenance: which pods stay away from which nodes, from when on, and what lets them in. At first it is midnight."""

from __future__ import annotations

import pytest
from maintenance import STARTS, Maintenance, MaintenanceArgs
from msgspec.structs import replace

from kframework import ApiObject, CycleState
from kframework.testing import (
    PluginContract,
    Scenario,
    create,
    make_node,
    make_pod,
    node_info,
    patch,
    pending_pod,
    stub_handle,
)

MINUTE = 60
AT_ONE = make_node("at-one", annotations={STARTS: "2026-01-01T01:00:00Z"})
WRONG = make_node("wrong", annotations={STARTS: "tomorrow"})
FREE = make_node("free")
POD = make_pod("job")
JOBS = {
    minutes: replace(POD, spec=replace(POD.spec, active_deadline_seconds=minutes * MINUTE)) for minutes in (30, 61, 90)
}


def scenario(*objects: ApiObject) -> Scenario:
    made = Scenario(plugins=[Maintenance])
    for each in objects:
        made.at(0, create(each))
    return made


def starting(text: str | None) -> dict[str, object]:
    return {"metadata": {"annotations": {STARTS: text}}}


@pytest.mark.parametrize(("minutes", "node"), [(30, "at-one"), (61, None)])
def test_pod_is_bound_where_it_ends_before_maintenance(minutes: int, node: str | None) -> None:
    assert scenario(AT_ONE, JOBS[minutes]).run().node_of("job") == node


def test_pod_without_deadline_is_assumed_to_run_for_the_default() -> None:
    filter_hook = Maintenance(MaintenanceArgs(default_seconds=3601), stub_handle()).filter
    assert filter_hook(CycleState(), pending_pod(POD), node_info(AT_ONE))
    assert scenario(AT_ONE, POD).run().node_of("job") == "at-one"


def test_rejection_changes_with_time() -> None:
    """What is remembered of a pod of the same template must not outlive its minute."""
    later = [replace(JOBS[30], metadata=replace(POD.metadata, name=f"job-{i}", uid=f"{i}")) for i in (29, 31)]
    world = scenario(AT_ONE, JOBS[30]).at(29 * MINUTE, create(later[0])).at(31 * MINUTE, create(later[1]))
    result = world.run()
    assert [result.node_of(name) for name in ("job", "job-29", "job-31")] == ["at-one", "at-one", None]
    assert "1 node(s) had maintenance before the pod would end" in result.message_of("job-31")


@pytest.mark.parametrize("text", ["tomorrow", "", "2026-01-01T01:00:00", "2026-02-30T01:00:00Z"])
def test_invalid_time_is_named_and_rejects_only_its_node(text: str) -> None:
    wrong = make_node("wrong", annotations={STARTS: text})
    assert f"1 node(s) had a {STARTS} that is no RFC 3339 time" in scenario(wrong, POD).run().message_of("job")
    assert scenario(wrong, FREE, POD).run().node_of("job") == "free"


def test_explanation_has_details() -> None:
    plugin, pod, node = Maintenance(MaintenanceArgs(), stub_handle()), pending_pod(JOBS[90]), node_info(WRONG)
    status = plugin.filter(CycleState(), pod, node)
    assert status is not None
    assert plugin.explain(CycleState(), pod, node, status) == [
        f"{STARTS} is tomorrow",
        "  the pod may run for 5400 s",
    ]


@pytest.mark.parametrize("text", [None, "2026-01-01T03:00:00+01:00"])
def test_cancelled_or_postponed_maintenance_requeues_the_pod(text: str | None) -> None:
    result = scenario(AT_ONE, JOBS[61]).at(10 * MINUTE, patch(AT_ONE, starting(text))).run(until=11 * MINUTE)
    assert result.node_of("job") == "at-one"
    assert result.decisions_on("job")[-1].requeued_by == "NodeUpdateNodeAnnotation"


def test_insufficiently_postponed_maintenance_requeues_no_pod() -> None:
    change = patch(AT_ONE, starting("2026-01-01T01:02:00Z"))
    result = scenario(AT_ONE, JOBS[90]).at(MINUTE, change).run(until=3 * MINUTE)
    assert len(result.decisions_on("job")) == 1


def test_new_node_or_shorter_deadline_requeues_the_pod() -> None:
    waits = scenario(AT_ONE, JOBS[90])
    assert waits.at(MINUTE, create(FREE)).run(until=2 * MINUTE).node_of("job") == "free"
    waits = scenario(AT_ONE, JOBS[90])
    shorter = patch(POD, {"spec": {"activeDeadlineSeconds": 600}})
    assert waits.at(MINUTE, shorter).run(until=2 * MINUTE).node_of("job") == "at-one"


class TestContract(PluginContract):
    plugin = Maintenance
    nodes = [AT_ONE, WRONG, FREE]
    pods = [*JOBS.values()]
