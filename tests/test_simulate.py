"""A simulation schedules what it is given until nothing moves any more, and says where every pod went."""

from __future__ import annotations

import asyncio

import pytest

from kframework import CycleState, PendingPod, error
from kframework.cluster.kubelet import RUN_SECONDS
from kframework.config import default_configuration, parse
from kframework.decision import Binding, Decision, Result
from kframework.registry import Registry
from kframework.simulate import Outcome, Progress, simulate
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone, plugin


def test_every_pod_has_an_outcome_in_the_order_of_creation() -> None:
    pods = [make_pod("fits"), make_pod("big", cpu=99), make_pod("runs", node_name="a"), make_pod("x", namespace="team")]
    simulation = simulate([make_node("a"), *pods])
    why = "0/1 nodes are available: 1 Insufficient cpu."
    assert simulation.outcomes == (
        Outcome("default/fits", "a", "", 1, "default-scheduler", "Running"),
        Outcome("default/big", None, f"{why} no new claims to deallocate", 1, "default-scheduler", "Pending"),
        Outcome("default/runs", "a", "", 0, "default-scheduler", "Running"),
        Outcome("team/x", "a", "", 1, "default-scheduler", "Running"),
    )
    assert simulation.seconds == 0.0
    assert simulation.retrying == ()
    assert [decision.result for decision in simulation.decisions] == [
        Result.SCHEDULED,
        Result.UNSCHEDULABLE,
        Result.SCHEDULED,
    ]
    assert [(binding.pod, binding.node) for binding in simulation.bindings] == [("default/fits", "a"), ("team/x", "a")]


def test_without_pods_there_is_nothing_to_do() -> None:
    assert simulate([make_node("a")]).outcomes == ()


def test_pods_that_end_make_room_for_others() -> None:
    pods = [make_pod(name, cpu=3, annotations={RUN_SECONDS: "60"}) for name in ("first", "second")]
    simulation = simulate([make_node("a"), *pods])
    assert [outcome.node for outcome in simulation.outcomes] == ["a", "a"]
    assert simulation.outcomes[1].attempts == 2
    assert simulation.seconds == 120.0


def test_a_duration_is_kept_however_little_happens() -> None:
    assert simulate([make_node("a"), make_pod()], duration=500.0).seconds == 500.0


def test_pods_that_are_retried_in_vain_are_given_up_after_an_hour() -> None:
    failing = plugin("F", filter=error("broken"))
    objects = [make_node("a"), make_pod("lost"), make_pod("lost-too")]
    simulation = simulate(objects, parse(alone(failing)), registry=Registry.of(failing))
    assert simulation.seconds == 3600.0
    assert simulation.retrying == ("default/lost", "default/lost-too")


def test_a_binding_that_never_ends_is_given_up_too() -> None:
    async def stuck(state: CycleState, pod: PendingPod, node_name: str) -> None:
        if pod.name == "stuck":
            await asyncio.get_running_loop().create_future()

    binding = plugin("B", pre_bind=stuck)
    objects = [make_node("a"), make_pod("stuck"), make_pod("other")]
    simulation = simulate(objects, parse(alone(binding)), registry=Registry.of(binding))
    assert simulation.seconds == 3600.0
    assert simulation.retrying == ("default/stuck",)
    assert simulation.outcomes[1].node == "a"


def test_observers_and_progress_see_it_happen() -> None:
    class Seeing:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def decided(self, decision: Decision) -> None:
            self.seen.append(f"decided {decision.pod}")

        def bound(self, binding: Binding) -> None:
            self.seen.append(f"bound {binding.pod}")

    seeing, progress = Seeing(), list[Progress]()
    simulate([make_node("a"), make_pod()], observers=[seeing], on_progress=progress.append)
    assert seeing.seen == ["decided default/pod", "bound default/pod"]
    assert progress == [Progress(1, 1)]


def test_plugins_that_are_not_built_are_noticed() -> None:
    notices = simulate([]).notices
    missing = set(default_configuration().profiles[0].plugins.enabled_names()) - set(Registry.installed())
    assert bool(notices) is bool(missing)
    assert all(name in notices[0] for name in missing)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_input_gives_the_same_decisions(seed: int) -> None:
    text = f"apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: {seed}\n"
    objects = [*(make_node(name) for name in "abcdef"), *(make_pod(f"p{number}") for number in range(12))]

    def nodes() -> list[str]:
        return [decision.node for decision in simulate(objects, parse(text)).decisions]

    assert nodes() == nodes()
    other = parse(text.replace(f"seed: {seed}", "seed: 2"))
    assert nodes() != [decision.node for decision in simulate(objects, other).decisions], "the seed decides ties"
