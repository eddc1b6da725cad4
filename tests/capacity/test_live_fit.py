"""A scheduler answers whether pods fit as it would then place them, and is the same afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import aiohttp
import msgspec
from hypothesis import given
from msgspec.structs import replace

from kframework import Simulation
from kframework.capacity.fit_result import FitResult
from kframework.capacity.live_fit import MAX_PODS, FitRequest, fit_route, fit_steps
from kframework.core.pod_engine import PodEngine
from kframework.objects import ApiObject, Pod
from kframework.process.http.endpoints import Listener, serve
from kframework.scheduler.cooperative import run_to_end
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.capacity.test_fit import clusters, workloads
from tests.support.devices import with_claim


def ask(engine: PodEngine, *pods: Pod) -> FitResult:
    return run_to_end(fit_steps(engine, FitRequest(("pod/new",), pods)))


def table(engine: PodEngine) -> list[object]:
    """Return what a what-if could leave behind."""
    nodes = engine.cluster.nodes
    rows = [(node.name, {pod.uid for pod in node.pods}, node.requested("cpu")) for node in nodes]
    nominated = [engine.cluster.nominator.nominated_node(uid) for uid in engine.handlers.pending]
    return [*rows, nominated, len(engine.cluster.statements), engine.attempts, engine.queue.count_by_queue()]


def test_pods_are_placed_one_beside_the_other() -> None:
    with Simulation([make_node("a", cpu=4), make_node("b", cpu=4)]) as simulation:
        engine = simulation.run().scheduler.engine
        result = ask(engine, *(make_pod(f"p{n}", cpu=3) for n in range(3)))
    assert not result.fits and {each.node for each in result.pods} == {"a", "b", ""}
    assert result.obstacle is not None and result.obstacle.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert result.obstacle.remedies == (), "what would help was tried without the others"


def test_the_first_pod_has_remedies() -> None:
    with Simulation([make_node("a", cpu=4)]) as simulation:
        result = ask(simulation.run().scheduler.engine, make_pod("p", cpu=5))
    assert result.obstacle is not None and result.obstacle.remedies


def test_victims_are_named_and_their_room_is_used_once() -> None:
    low = make_pod("low", cpu=4, node_name="a")
    with Simulation([make_node("a", cpu=4), low]) as simulation:
        result = ask(simulation.run().scheduler.engine, *(make_pod(f"p{n}", cpu=4, priority=5) for n in range(2)))
    assert [each.node for each in result.pods] == ["a", ""]
    assert [(each.pod, each.evicted_for) for each in result.evicted] == [("default/low", "default/p0")]


@given(clusters(), workloads())
def test_the_answer_is_what_then_happens_and_changes_nothing(
    cluster: Sequence[ApiObject], workload: Sequence[ApiObject]
) -> None:
    pod = next(each for each in workload if isinstance(each, Pod))
    pod = replace(pod, spec=replace(pod.spec, scheduling_group=None, resource_claims=(), volumes=()))
    with Simulation(cluster) as simulation:
        engine = simulation.run().scheduler.engine
        before = table(engine)
        result = ask(engine, pod)
        assert table(engine) == before
        simulation.create(pod)
        preempted = len(simulation.result.preemptions)
        created = simulation.run().cluster.read(Pod, pod.metadata.name, "default")
        assert result.fits == bool(created.spec.node_name)
        assert bool(result.evicted) == (len(simulation.result.preemptions) > preempted)


async def post(scheduler: Scheduler, *bodies: bytes) -> list[tuple[int, dict[str, object]]]:
    """Post questions one after the other; return the statuses and answers."""
    answers: list[tuple[int, dict[str, object]]] = []
    async with serve([fit_route(scheduler)], Listener(port=0)) as url, aiohttp.ClientSession() as session:
        for body in bodies:
            async with session.post(f"{url}/fit", data=body) as response:
                answers.append((response.status, await response.json()))
    return answers


def question(*pods: Pod) -> bytes:
    return msgspec.json.encode(FitRequest((), pods))


def test_the_port_answers_and_says_what_it_refuses() -> None:
    with Simulation([make_node("a", cpu=4)]) as simulation:
        simulation.run()
        bodies = (
            question(make_pod("p")),
            b'{"pods": 3}',
            question(*(make_pod(f"p{n}") for n in range(MAX_PODS + 1))),
            question(make_pod("p", scheduler_name="other")),
            question(with_claim(make_pod("p"), template="t")),
        )
        (status, answer), *refusals = asyncio.run(post(simulation.scheduler, *bodies))
    assert status == 200 and answer["pods"] == [{"pod": "default/p", "node": "a", "message": ""}]
    words = ("pods: expected a list", "64 pods at most", "for another scheduler", "do not exist yet")
    for (status, answer), word in zip(refusals, words, strict=True):
        assert status == 400 and word in str(answer["error"])
