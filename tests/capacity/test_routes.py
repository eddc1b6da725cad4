"""The port of a scheduler answers whether pods fit, and says what it refuses."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec

from kframework import Simulation
from kframework.capacity.live_fit import MAX_PODS, FitRequest
from kframework.capacity.routes import fit_route
from kframework.objects import Pod
from kframework.process.http.endpoints import Listener, serve
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.support.devices import with_claim


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
    words = ("pods: expected a list", "500 pods at most", "for another scheduler", "no ResourceClaimTemplate")
    for (status, answer), word in zip(refusals, words, strict=True):
        assert status == 400 and word in str(answer["error"])
