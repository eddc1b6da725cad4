"""TeamQuota: who waits for its team, and what lets it go."""

from __future__ import annotations

import pytest
from team_quota import TeamQuota

from kframework import ApiObject, ConfigError, CycleState, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.testing import PluginContract, Scenario, ScenarioResult, create, delete, make_node, make_pod, patch

ARGS = {"teams": {"red": {"cpu": 2, "memoryGi": 4}, "blue": {"cpu": 1}}}
RED = [make_pod(f"red-{i}", cpu=1, labels={"team": "red"}) for i in range(4)]
RUNNING = [make_pod(f"running-{i}", cpu=1, labels={"team": "red"}, node_name="node") for i in range(2)]
BLUE = make_pod("blue", cpu=1, labels={"team": "blue"})


class Unlucky(Plugin):
    """Bind no pod called red-0."""

    name = "Unlucky"

    @hookimpl
    def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        return unschedulable("bad luck") if pod.name == "red-0" else None


def scenario(*pods: ApiObject, beside: tuple[type[Plugin], ...] = ()) -> Scenario:
    scenario = Scenario(nodes=[make_node("node", cpu=16)], plugins=[TeamQuota, *beside], args={"TeamQuota": ARGS})
    for pod in pods:
        scenario.at(0, create(pod))
    return scenario


def bound(result: ScenarioResult) -> list[str]:
    """Name the pods that were bound, in that order."""
    return [binding.pod.removeprefix("default/") for binding in result.bindings if not binding.message]


def test_simultaneous_pods_do_not_exceed_the_share() -> None:
    result = scenario(*RED, BLUE).run()
    assert bound(result) == ["red-0", "red-1", "blue"]
    assert "team red has less left of its 2 cpu than requested" in result.message_of("red-2")


def test_pod_of_exhausted_team_is_gated() -> None:
    result = scenario(*RUNNING, RED[0]).run()
    assert result.state_of("red-0") == "gated"
    assert not result.decisions_on("red-0")


def test_every_resource_of_a_share_is_limited() -> None:
    large = make_pod("large", memory="5Gi", labels={"team": "red"})
    assert bound(scenario(large).run()) == []
    assert bound(scenario(make_pod("small", memory="4Gi", labels={"team": "red"})).run()) == ["small"]


def test_share_can_be_used_completely() -> None:
    """0.1 + 0.2 > 0.3, but not of a cpu."""
    pods = [make_pod(f"part-{i}", cpu=cpu, labels={"team": "tenths"}) for i, cpu in enumerate(["100m", "200m"])]
    args = {"TeamQuota": {"teams": {"tenths": {"cpu": 0.3}}}}
    result = Scenario(nodes=[make_node("node")], pods=pods, plugins=[TeamQuota], args=args).run()
    assert bound(result) == ["part-0", "part-1"]


def test_pod_without_requests_is_bound_when_the_share_is_exhausted() -> None:
    assert "idle" in bound(scenario(*RUNNING, make_pod("idle", cpu=0, labels={"team": "red"})).run())


@pytest.mark.parametrize("pod", [make_pod("free", cpu=8), make_pod("free", cpu=8, labels={"team": "green"})])
def test_team_without_share_has_no_limit(pod: ApiObject) -> None:
    assert bound(scenario(pod).run()) == ["free"]


GIVEN_BACK: dict[str, dict[str, object]] = {
    "deleted": {},
    "ended": {"status": {"phase": "Succeeded"}},
    "of another team": {"metadata": {"labels": {"team": "green"}}},
    "smaller": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "0"}}}]}},
}


@pytest.mark.parametrize("changes", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_room_of_deleted_team_pod_is_used_by_one_pod(changes: dict[str, object]) -> None:
    gives_back = patch(RUNNING[0], changes) if changes else delete(RUNNING[0])
    result = scenario(*RUNNING, *RED[:2]).at(60, gives_back).run()
    assert len(bound(result)) == 1


def test_room_of_another_team_requeues_no_pod() -> None:
    blue = make_pod("blue", cpu=1, labels={"team": "blue"}, node_name="node")
    result = scenario(*RUNNING, blue, RED[0]).at(60, delete(blue)).run()
    assert not result.decisions_on("red-0")


def test_failed_binding_frees_the_share() -> None:
    result = scenario(*RED[:3], beside=(Unlucky,)).run(until=60)
    assert {"red-1", "red-2"} <= {*bound(result)}


def test_pod_can_change_its_team() -> None:
    changed = patch(RED[0], {"metadata": {"labels": {"team": "blue"}}})
    assert bound(scenario(*RUNNING, RED[0]).at(60, changed).run()) == ["red-0"]


def test_pods_of_other_schedulers_count() -> None:
    other = make_pod("other", cpu=2, labels={"team": "red"}, node_name="node", scheduler_name="other")
    assert bound(scenario(other, RED[0]).run()) == []


@pytest.mark.parametrize("share", [{"memory": 4}, {"cpu": 0}, {"memoryGi": float("inf")}])
def test_invalid_share_is_rejected(share: dict[str, float]) -> None:
    (field,) = share
    with pytest.raises(ConfigError, match=rf"teams\.red\.{field}"):
        Scenario(plugins=[TeamQuota], args={"TeamQuota": {"teams": {"red": share}}}).run()


class TestContract(PluginContract):
    plugin = TeamQuota
    args = ARGS
    pods = [*RED[:2], BLUE]
