"""A simulation schedules what it is given until nothing moves any more, and says where every pod went."""

from __future__ import annotations

import asyncio
from bdb import BdbQuit
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest

from kframework import CycleState, PendingPod, Plugin, error
from kframework.clock import VIRTUAL_EPOCH
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.core.cycle.records import Binding, Decision, Result
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import ApiObject
from kframework.plugins.default_preemption import DefaultPreemption
from kframework.simulation.controllers import STANDARD_CONTROLLERS, ControllerFactory
from kframework.simulation.records import PodOutcome, Progress, SimulationResult
from kframework.simulation.running import Script
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from kframework.testing.scenario import Scenario, create
from tests.extension_points.scripted import alone, held, plugin
from tests.support.declared_kinds import Gang, gang, team
from tests.support.extenders import GPU, ExtenderServer, accept_except, configuration, verbs

NO_WAY_OUT = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def simulate(
    objects: Iterable[ApiObject],
    configuration: Configuration | None = None,
    *,
    duration: float | None = None,
    controllers: Sequence[ControllerFactory] = (),
    **given: Any,
) -> SimulationResult:
    """Simulate these objects, with the controllers beside the standard ones."""
    beside = [*STANDARD_CONTROLLERS, *controllers]
    with Simulation(objects, configuration, controllers=beside, **given) as simulation:
        return simulation.run(duration).result


def test_every_pod_has_an_outcome_in_the_order_of_creation() -> None:
    pods = [make_pod("fits"), make_pod("big", cpu=99), make_pod("runs", node_name="a"), make_pod("x", namespace="team")]
    simulation = simulate([make_node("a"), *pods])
    why = "0/1 nodes are available: 1 Insufficient cpu."
    assert simulation.outcomes == (
        PodOutcome("default/fits", "a", "", 1, "default-scheduler", "Running"),
        PodOutcome(
            "default/big", None, f"{why} {NO_WAY_OUT}", 1, "default-scheduler", "Pending", ("NodeResourcesFit",)
        ),
        PodOutcome("default/runs", "a", "", 0, "default-scheduler", "Running"),
        PodOutcome("team/x", "a", "", 1, "default-scheduler", "Running"),
    )
    assert simulation.seconds == 0.0
    assert simulation.retrying == ()
    assert [decision.result for decision in simulation.decisions] == [
        Result.SCHEDULED,
        Result.UNSCHEDULABLE,
        Result.SCHEDULED,
    ]
    assert [(binding.pod, binding.node) for binding in simulation.bindings] == [("default/fits", "a"), ("team/x", "a")]


def test_simulation_without_pods_ends_at_once() -> None:
    assert simulate([make_node("a")]).outcomes == ()


def test_pods_that_end_make_room_for_others() -> None:
    pods = [make_pod(name, cpu=3, annotations={RUN_SECONDS: "60"}) for name in ("first", "second")]
    simulation = simulate([make_node("a"), *pods])
    assert [outcome.node for outcome in simulation.outcomes] == ["a", "a"]
    assert simulation.outcomes[1].attempts == 2
    assert simulation.seconds == 120.0


def test_simulation_lasts_its_duration_without_changes() -> None:
    assert simulate([make_node("a"), make_pod()], duration=500.0).seconds == 500.0


def test_simulation_ends_after_an_hour_of_failed_retries() -> None:
    failing = plugin("F", filter=error("broken"))
    objects = [make_node("a"), make_pod("lost"), make_pod("lost-too")]
    simulation = simulate(objects, parse(alone(failing)), registry=Registry.with_plugins(failing))
    assert simulation.seconds == 3600.0
    assert simulation.retrying == ("default/lost", "default/lost-too")


def test_simulation_ends_if_a_binding_never_ends() -> None:
    async def stuck(state: CycleState, pod: PendingPod, node_name: str) -> None:
        if pod.name == "stuck":
            await asyncio.get_running_loop().create_future()

    binding = plugin("B", pre_bind=stuck)
    objects = [make_node("a"), make_pod("stuck"), make_pod("other")]
    simulation = simulate(objects, parse(alone(binding)), registry=Registry.with_plugins(binding))
    assert simulation.seconds == 3600.0
    assert simulation.retrying == ("default/stuck",)
    assert simulation.outcomes[1].node == "a"
    late = "plugin 'B', hook pre_bind: timed out after 600 s (hookTimeouts.preBind)"
    assert simulation.stuck == {"default/stuck": f"in B.pre_bind for 570 s; before, {late}"}


def test_stuck_pod_between_two_bindings_has_the_end_of_the_last_one() -> None:
    binding = plugin("B", bind=error("no lease"))
    objects = [make_node("a"), make_pod("lost")]
    simulation = simulate(objects, parse(alone(binding)), registry=Registry.with_plugins(binding))
    assert simulation.stuck == {"default/lost": 'running Bind plugin "B": no lease'}


def test_retried_pod_without_a_binding_is_not_stuck() -> None:
    failing = plugin("F", filter=error("broken"))
    assert not simulate(
        [make_node("a"), make_pod()], parse(alone(failing)), registry=Registry.with_plugins(failing)
    ).stuck


class Crew:
    """Does something every 1500 seconds, `steps` times."""

    kinds: tuple[type[ApiObject], ...] = (Gang,)

    def __init__(self, cluster: MemoryCluster, steps: int, step: Callable[[MemoryCluster, int], object]) -> None:
        self.on_idle: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._step = step
        self._steps = steps
        self._done = 0

    @property
    def idle(self) -> bool:
        return self._done == self._steps

    async def run(self) -> None:
        while not self.idle:
            await asyncio.sleep(1500.0)
            self._done += 1
            self._step(self._cluster, self._done)
        self.on_idle()


def crew(step: Callable[[MemoryCluster, int], object], steps: int = 3) -> ControllerFactory:
    return lambda cluster, clock: Crew(cluster, steps, step)


def test_simulation_runs_until_controllers_are_idle() -> None:
    """A pod that they make is scheduled, and ends, before it is over; what they do last need not wake the scheduler."""
    progress: list[Progress] = []

    def make(cluster: MemoryCluster, number: int) -> None:
        cluster.add(make_pod(f"made-{number}", annotations={RUN_SECONDS: "60"}))

    idle_last = crew(lambda cluster, number: cluster.merge(Gang, "crew", {"status": {"podsRunning": number}}), 5)
    simulation = simulate(
        [make_node("a"), make_pod(), gang()], on_progress=progress.append, controllers=[crew(make), idle_last]
    )
    assert [outcome.pod for outcome in simulation.outcomes] == [
        "default/pod",
        *(f"default/made-{n}" for n in (1, 2, 3)),
    ]
    assert [outcome.attempts for outcome in simulation.outcomes] == [1] * 4
    assert {outcome.phase for outcome in simulation.outcomes[1:]} == {"Succeeded"}
    assert simulation.seconds == 5 * 1500.0
    assert progress == [Progress(number, number) for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("step", "last_move"),
    [
        (lambda cluster, number: cluster.add(gang(f"g{number}")), 4500.0),
        (lambda cluster, number: cluster.remove(Gang, "crew") if number == 2 else None, 3000.0),
        (lambda cluster, number: cluster.merge(Gang, "crew", {"status": {"phase": str(number)}}), 4500.0),
        (lambda cluster, number: cluster.merge(Gang, "crew", {"status": {"podsRunning": number}}), 0.0),
        (lambda cluster, number: cluster.merge(Gang, "crew", {"metadata": {"labels": {"n": str(number)}}}), 0.0),
        (lambda cluster, number: cluster.add(team(f"t{number}")), 0.0),
    ],
    ids=["created", "deleted", "another phase", "nothing but numbers", "labelled", "not followed"],
)
def test_changes_by_controllers_count_as_progress(
    step: Callable[[MemoryCluster, int], object], last_move: float
) -> None:
    failing = plugin("F", filter=error("broken"))
    objects = [make_node("a"), make_pod("lost"), gang()]
    controllers = [crew(step)]
    simulation = simulate(
        objects, parse(alone(failing)), registry=Registry.with_plugins(failing), controllers=controllers
    )
    assert simulation.seconds == last_move + 3600.0
    assert simulation.retrying == ("default/lost",)


def test_retrying_pods_come_from_the_engine() -> None:
    class Stubborn(PodEngine):
        is_idle = False

        def retried_pods(self) -> tuple[str, ...]:
            return ("all", "of", "them")

    simulation = simulate([make_node("a"), make_pod()], engine=Stubborn.from_configuration)
    assert (simulation.retrying, simulation.seconds) == (("all", "of", "them"), 3600.0)
    assert [outcome.node for outcome in simulation.outcomes] == ["a"]


def test_observers_and_progress_are_called_during_the_run() -> None:
    class Seeing:
        def __init__(self) -> None:
            self.seen: list[str] = []

        def on_decision(self, decision: Decision) -> None:
            self.seen.append(f"decided {decision.pod}")

        def on_binding(self, binding: Binding) -> None:
            self.seen.append(f"bound {binding.pod}")

    seeing, progress = Seeing(), list[Progress]()
    simulate([make_node("a"), make_pod()], observers=[seeing], on_progress=progress.append)
    assert seeing.seen == ["decided default/pod", "bound default/pod"]
    assert progress == [Progress(1, 1)]


def test_scheduler_can_be_inspected_between_runs() -> None:
    with Simulation([make_node("a", cpu=1), make_pod(cpu=1), make_pod("two", cpu=1)]) as simulation:
        engine = simulation.run().scheduler.engine
        (pod,) = engine.handlers.pending.values()
        assert (pod.key, len(engine.cluster.pods), len(engine.queue)) == ("default/two", 1, 1)


def test_stepwise_run_decides_as_a_single_run() -> None:
    objects = [make_node("a"), *(make_pod(f"p{number}", cpu=1) for number in range(6))]
    with Simulation(objects) as run:
        seen = list[Decision]()
        while (decision := run.step()) is not None:
            seen.append(decision)
            assert run.result.decisions[-1] is decision
        assert run.is_over
    assert [outcome(each) for each in seen] == [outcome(each) for each in simulate(objects).decisions]


def outcome(decision: Decision) -> tuple[int, str, str, float]:
    return decision.attempt, decision.pod, decision.node, decision.popped_at


@pytest.mark.blocks_loop
async def test_changes_between_two_steps_are_applied() -> None:
    # A loop runs already, as it does in a notebook.
    with Simulation([make_node("a", cpu=1), make_pod("p", cpu=2)]) as run:
        run.run()
        assert (run.is_over, run.result.outcomes[0].node) == (True, None)
        run.cluster.add(make_node("b"))
        run.run(30.0)
        assert (run.seconds, run.result.outcomes[0].node) == (30.0, "b")


def test_unused_plugins_are_reported() -> None:
    notices = simulate([]).notices
    missing = set(default_configuration().profiles[0].plugins.enabled_names()) - set(Registry.from_installed())
    assert bool(notices) is bool(missing)
    assert all(name in notices[0] for name in missing)


@pytest.mark.parametrize("seed", [0, 1])
def test_same_input_gives_the_same_decisions(seed: int) -> None:
    text = f"apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: {seed}\n"
    objects = [*(make_node(name) for name in "abcdef"), *(make_pod(f"p{number}") for number in range(12))]

    def nodes() -> list[str]:
        return [decision.node for decision in simulate(objects, parse(text)).decisions]

    assert nodes() == nodes()
    other = parse(text.replace(f"seed: {seed}", "seed: 2"))
    assert nodes() != [decision.node for decision in simulate(objects, other).decisions], "the seed decides ties"


def test_simulation_does_not_end_before_its_script() -> None:
    """Pods that fail again and again do not end a simulation with events to come."""
    failing = plugin("F", filter=error("broken"))
    late = [(3 * 3600.0, create(make_pod("late")))]
    objects = [make_node("a"), make_pod("lost")]
    result = simulate(objects, parse(alone(failing)), plugins=[failing], controllers=[partial(Script, actions=late)])
    assert [outcome.pod for outcome in result.outcomes] == ["default/lost", "default/late"]
    assert result.seconds == 4 * 3600.0


def test_run_to_end_stops_at_its_limit() -> None:
    failing = plugin("F", filter=error("broken"))
    with Simulation([make_node("a"), make_pod("lost")], parse(alone(failing)), plugins=[failing]) as simulation:
        assert simulation.run_to_end(100.0).seconds == 100.0
        assert not simulation.is_over
        assert (simulation.run_to_end(9000.0).seconds, simulation.is_over) == (3600.0, True)


def test_run_until_ends_with_the_work_and_returns_its_result() -> None:
    async def work(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def fail() -> None:
        raise ValueError("no")

    with Simulation([make_node("a"), make_pod("pod")]) as simulation:
        assert simulation.run_until(work(20.0)) == simulation.seconds == 20.0
        assert simulation.outcomes[0].node == "a"
        with pytest.raises(ValueError, match="no"):
            simulation.run_until(fail())


def test_kept_records_are_limited() -> None:
    objects = [make_node("a"), *(make_pod(f"p{number}") for number in range(5))]
    with Simulation(objects, max_records=2) as simulation:
        assert [decision.attempt for decision in simulation.run().decisions] == [4, 5]
        assert len(simulation.bindings) == 2


#: With DefaultPreemption, whether it is installed or not.
PREEMPTING = Registry.with_plugins(DefaultPreemption)


def test_extenders_are_called_over_http() -> None:
    answers = {
        "filter": accept_except("b", "c"),
        "prioritize": [{"Host": "a", "Score": 10}, {"Host": "c", "Score": 5}],
        "bind": {},
    }
    with ExtenderServer(answers) as server:
        config = configuration(server.settings(*answers, weight=2))
        simulation = simulate([*map(make_node, "abc"), make_pod("x"), make_pod("y")], parse(config))
    assert [outcome.node for outcome in simulation.outcomes] == ["c", "c"]
    # A cluster in memory knows nothing of extenders: it is told what they have bound.
    assert [outcome.phase for outcome in simulation.outcomes] == ["Running", "Running"]
    assert sorted(verbs(server.asked)) == sorted([*answers, *answers])
    assert simulation.seconds == 0.0


def test_pod_rejected_by_an_extender_is_retried_on_an_event() -> None:
    with ExtenderServer({"filter": accept_except("b", failed={"a": "not a"})}) as server:
        scenario = Scenario(nodes=[make_node("a")], pods=[make_pod()], config=configuration(server.settings("filter")))
        result = scenario.at(60.0, create(make_node("b"))).run()
    assert result.node_of("pod") == "b"
    decisions = result.decisions_on("pod")
    assert decisions[0].rejectors == ("Extender",)
    assert decisions[0].message.startswith("0/1 nodes are available: 1 not a.")


@pytest.mark.parametrize("ignorable", [True, False])
def test_unresponsive_extender_takes_no_virtual_time(ignorable: bool) -> None:
    server = ExtenderServer({})
    server.answers = {"filter": server.hang}
    with server:
        config = configuration(server.settings("filter", ignorable=ignorable, httpTimeout="20ms"))
        simulation = simulate([make_node("a"), make_pod()], parse(config), duration=3.0)
    decisions = simulation.decisions
    if ignorable:
        assert (simulation.outcomes[0].node, len(decisions)) == ("a", 1)
        return
    deadline = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    assert decisions[0].message == f'Post "{server.url}/filter": {deadline}'
    # The second attempt comes when it would after any other error.
    assert [decision.popped_at - VIRTUAL_EPOCH for decision in decisions] == [0.0, 2.0]


def test_binding_rejected_by_the_cluster_is_an_extender_failure() -> None:
    def bind(question: Any) -> object:
        return {"Error": "node is on fire"}

    with ExtenderServer({"bind": bind}) as server:
        config = configuration(server.settings("bind"))
        simulation = simulate([make_node("a"), make_pod()], parse(config), duration=0.5)
    assert simulation.outcomes[0].node is None
    assert simulation.bindings[0].message == "node is on fire"


def test_resources_managed_by_extenders_are_not_counted() -> None:
    manages = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
    pods = [make_pod("gpu", requests={GPU: 8}), make_pod("plain")]
    with ExtenderServer({"filter": accept_except("b")}) as server:
        simulation = simulate(
            [make_node("a"), make_node("b"), *pods], parse(configuration(server.settings("filter", **manages)))
        )
    assert simulation.outcomes[0].node == "b"
    assert [question["Pod"]["metadata"]["name"] for _, question in server.asked] == ["gpu"]


@pytest.mark.parametrize(("kept", "victim"), [("ab", "cheap"), ("b", "dear")])
def test_extenders_limit_preemption_candidates(kept: str, victim: str) -> None:
    def preempt(question: Any) -> object:
        victims = question["NodeNameToVictims"]
        meta = {name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims[name]["Pods"]]} for name in kept}
        return {"NodeNameToMetaVictims": meta}

    pods = [
        make_pod("cheap", cpu=3, node_name="a", priority=1),
        make_pod("dear", cpu=3, node_name="b", priority=2),
        make_pod("urgent", cpu=3, priority=9),
    ]
    with ExtenderServer({"preempt": preempt}) as server:
        config = parse(configuration(server.settings("preempt")))
        simulation = simulate([make_node("a"), make_node("b"), *pods], config, registry=PREEMPTING)
    assert simulation.decisions[0].victims == (f"default/{victim}",)
    (urgent,) = (outcome for outcome in simulation.outcomes if outcome.pod == "default/urgent")
    assert urgent.node == ("a" if victim == "cheap" else "b")


def test_extenders_can_reject_all_preemption_candidates() -> None:
    pods = [make_pod("low", cpu=3, node_name="a", priority=1), make_pod("urgent", cpu=3, priority=9)]
    with ExtenderServer({"preempt": {}}) as server:
        config = parse(configuration(server.settings("preempt")))
        simulation = simulate([make_node("a"), *pods], config, registry=PREEMPTING)
    said = "preemption: no candidate node for preemption"
    assert simulation.outcomes[1].message == f"0/1 nodes are available: 1 Insufficient cpu. {said}"


def test_quitting_the_debugger_ends_the_simulation() -> None:
    async def quits() -> None:
        raise BdbQuit

    in_hook = plugin("Quits", filter=BdbQuit())
    beside: type[Plugin] = plugin("Quits", reserve=lambda *_: held(beside).spawn(quits()))
    for quitting in (in_hook, beside):
        with pytest.raises(KeyboardInterrupt):
            simulate(
                [make_node("a"), make_pod("pod")], parse(alone(quitting)), registry=Registry.with_plugins(quitting)
            )
