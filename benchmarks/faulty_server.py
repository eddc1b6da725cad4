"""How long 500 pods, created at 100 a second, wait for their nodes if the API server refuses, loses or delays requests.

On virtual time, so the figures depend on no machine; each is the mean over five seeds. Reads, watches, statuses and
events are affected as bindings are. kube-scheduler's figures are from the same pods and faults, measured through a
proxy before kube-apiserver.
"""

from __future__ import annotations

import asyncio
import sys
from random import Random
from typing import NamedTuple

import anyio
from msgspec.structs import replace

from kframework.client.flow_control import FlowControl
from kframework.client.kube_cluster import KubeCluster
from kframework.clock import LoopClock, run_virtual
from kframework.config.load import default_configuration
from kframework.config.models import ClientConnection
from kframework.fake_api.embedded_server import InProcessTransport
from kframework.fake_api.server import ApiServer
from kframework.in_memory.cluster import MemoryCluster
from kframework.objects import Pod
from kframework.scheduler.scheduler import Scheduler
from kframework.testing import make_node, make_pod
from tests.support.faulty_transport import FaultyTransport, Rates
from tests.support.slow_server import SlowServer

PODS, RATE = 500, 100
SEEDS = 5

#: The server's writes a second, and the seconds that each takes.
CAPACITY, LATENCY = 2000, 0.005

#: When a run ends at the latest, in seconds after the last creation.
LIMIT = 120.0


class Trouble(NamedTuple):
    """The faults of a server, and kube-scheduler's seconds from the last creation to the last binding.

    All together are 1 % refused, 10 % lost and 30 % slow: 10 % refused alone delay kube-scheduler longer.
    """

    name: str
    rates: Rates
    kube_scheduler: float


def _refused(share: float) -> Rates:
    return Rates(too_many_requests=share / 2, internal_error=share / 4, unavailable=share / 4)


TROUBLES = (
    Trouble("none", Rates(), 0.0),
    Trouble("1 % refused", _refused(0.01), 1.2),
    Trouble("10 % refused", _refused(0.1), 4.6),
    Trouble("10 % lost", Rates(reset=0.1), 1.9),
    Trouble("30 % slow", Rates(delayed=0.3), 3.3),
    Trouble("all together", replace(_refused(0.01), reset=0.1, delayed=0.3), 4.1),
)


def drain_time(rates: Rates, seed: int) -> float:
    """Return the seconds from the last creation until all pods are bound; LIMIT if they are not by then."""
    return run_virtual(lambda: _drain(rates, seed))


async def _drain(rates: Rates, seed: int) -> float:
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    nodes = [make_node(f"n{number}", cpu="1000", memory="1000Gi", pods=PODS) for number in range(10)]
    store = MemoryCluster(clock, nodes)
    server = SlowServer(CAPACITY, LATENCY, InProcessTransport(ApiServer(store, clock)))
    # kube-apiserver always says that a request may come again after one second.
    faulty = FaultyTransport(server, Random(seed), rates, clock, max_retry_after=1)
    transport = FlowControl(faulty, ClientConnection(qps=-1.0), clock)
    cluster = KubeCluster(transport, clock, random=Random(seed))
    scheduler = Scheduler(default_configuration(), cluster, clock, slice=0.0)
    unbound = PODS
    over = asyncio.Event()

    def count(change: object) -> None:
        nonlocal unbound
        unbound = PODS - sum(bool(pod.spec.node_name) for pod in store.objects(Pod))
        if not unbound:
            over.set()

    store.subscribe([Pod], count)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scheduler.run)
        await asyncio.sleep(10.0)  # the watches are there
        for number in range(PODS):
            store.add(make_pod(f"p{number}"))
            await asyncio.sleep(1 / RATE)
        created = loop.time()
        with anyio.move_on_after(LIMIT):
            await over.wait()
        took = loop.time() - created
        tasks.cancel_scope.cancel()
    return took


def main() -> None:
    sys.stdout.write(f"{'trouble':14}{'seconds':>9}{'kube-scheduler':>16}\n")
    for trouble in TROUBLES:
        seconds = sum(drain_time(trouble.rates, seed) for seed in range(SEEDS)) / SEEDS
        sys.stdout.write(f"{trouble.name:14}{seconds:>9.1f}{trouble.kube_scheduler:>16.1f}\n")


if __name__ == "__main__":
    main()
