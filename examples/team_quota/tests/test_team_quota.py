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


def test_pods_that_come_at_once_do_not_share_the_same_room() -> None:
    result = scenario(*RED, BLUE).run()
    assert bound(result) == ["red-0", "red-1", "blue"]
    assert "team red has less left of its 2 cpu than is asked for" in result.message_of("red-2")


def test_a_pod_of_a_team_without_room_is_not_even_tried() -> None:
    result = scenario(*RUNNING, RED[0]).run()
    assert result.state_of("red-0") == "gated"
    assert not result.decisions_on("red-0")


def test_every_resource_of_a_share_counts() -> None:
    large = make_pod("large", memory="5Gi", labels={"team": "red"})
    assert bound(scenario(large).run()) == []
    assert bound(scenario(make_pod("small", memory="4Gi", labels={"team": "red"})).run()) == ["small"]


def test_a_share_is_used_to_the_last_bit() -> None:
    """0.1 + 0.2 > 0.3, but not of a cpu."""
    pods = [make_pod(f"part-{i}", cpu=cpu, labels={"team": "tenths"}) for i, cpu in enumerate(["100m", "200m"])]
    args = {"TeamQuota": {"teams": {"tenths": {"cpu": 0.3}}}}
    result = Scenario(nodes=[make_node("node")], pods=pods, plugins=[TeamQuota], args=args).run()
    assert bound(result) == ["part-0", "part-1"]


def test_a_pod_that_asks_for_nothing_goes_even_where_nothing_is_left() -> None:
    assert "idle" in bound(scenario(*RUNNING, make_pod("idle", cpu=0, labels={"team": "red"})).run())


@pytest.mark.parametrize("pod", [make_pod("free", cpu=8), make_pod("free", cpu=8, labels={"team": "green"})])
def test_without_a_share_there_is_no_limit(pod: ApiObject) -> None:
    assert bound(scenario(pod).run()) == ["free"]


GIVEN_BACK: dict[str, dict[str, object]] = {
    "deleted": {},
    "ended": {"status": {"phase": "Succeeded"}},
    "of another team": {"metadata": {"labels": {"team": "green"}}},
    "smaller": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "0"}}}]}},
}


@pytest.mark.parametrize("changes", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_what_a_pod_of_the_team_gives_back_is_taken_by_one(changes: dict[str, object]) -> None:
    gives_back = patch(RUNNING[0], changes) if changes else delete(RUNNING[0])
    result = scenario(*RUNNING, *RED[:2]).at(60, gives_back).run()
    assert len(bound(result)) == 1


def test_what_another_team_gives_back_wakes_nobody() -> None:
    blue = make_pod("blue", cpu=1, labels={"team": "blue"}, node_name="node")
    result = scenario(*RUNNING, blue, RED[0]).at(60, delete(blue)).run()
    assert not result.decisions_on("red-0")


def test_a_pod_that_is_not_bound_after_all_gives_its_place_to_others() -> None:
    result = scenario(*RED[:3], beside=(Unlucky,)).run(until=60)
    assert {"red-1", "red-2"} <= {*bound(result)}


def test_a_pod_may_change_sides() -> None:
    changed = patch(RED[0], {"metadata": {"labels": {"team": "blue"}}})
    assert bound(scenario(*RUNNING, RED[0]).at(60, changed).run()) == ["red-0"]


def test_pods_of_other_schedulers_count_too() -> None:
    other = make_pod("other", cpu=2, labels={"team": "red"}, node_name="node", scheduler_name="other")
    assert bound(scenario(other, RED[0]).run()) == []


@pytest.mark.parametrize("share", [{"memory": 4}, {"cpu": 0}, {"memoryGi": float("inf")}])
def test_a_share_that_makes_no_sense_is_refused(share: dict[str, float]) -> None:
    (field,) = share
    with pytest.raises(ConfigError, match=rf"teams\.red\.{field}"):
        Scenario(plugins=[TeamQuota], args={"TeamQuota": {"teams": {"red": share}}}).run()


class TestContract(PluginContract):
    plugin = TeamQuota
    args = ARGS
    pods = [*RED[:2], BLUE]
