"""A closed gate lets nothing through that writes."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from kframework.clock import LoopClock, run_virtual
from kframework.cluster.kube_cluster import KubeCluster
from kframework.cluster.transport import Request
from kframework.config.models import ClientConnection
from kframework.errors import ClusterError
from kframework.flow_control import FlowControl
from kframework.gate import STOPPED, Gate, GatedTransport
from kframework.objects import Pod
from kframework.testing import make_pod
from tests.cluster.scripted import Scripted, listed, ok, refused, some

WORDS = "this scheduler has stopped, or lost its lease, and writes nothing any more"


def test_a_gate_is_open_until_it_is_closed() -> None:
    gate = Gate()
    gate.check()
    assert repr(gate) == "<Gate open>"
    gate.close()
    with pytest.raises(ClusterError, match=WORDS) as caught:
        gate.check()
    assert (caught.value.status, caught.value.reason) == (403, STOPPED)
    assert repr(gate) == "<Gate closed>"


def test_a_gate_is_closed_while_what_it_depends_on_does_not_hold() -> None:
    leading = [False]
    gate = Gate()
    gate.only_while(lambda: leading[0])
    with pytest.raises(ClusterError, match=WORDS):
        gate.check()
    leading[0] = True
    gate.check()
    gate.close()
    with pytest.raises(ClusterError, match=WORDS):
        gate.check()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_that_writes_gets_through_a_closed_gate(method: str) -> None:
    async def main() -> None:
        gate, inner = Gate(), Scripted(ok({}), ok({}), listed(1))
        transport = GatedTransport(inner, gate)
        await transport.send(Request(method=method, path="/"))
        gate.close()
        with pytest.raises(ClusterError, match=WORDS):
            await transport.send(Request(method=method, path="/"))
        await transport.send(Request(method="GET", path="/"))
        async with transport.stream(Request(method="GET", path="/", query=(("watch", "true"),))):
            pass
        await transport.close()
        assert [request.method for request in inner.requests] == [method, "GET", "GET"]

    run_virtual(main)


def test_what_waited_for_its_turn_does_not_get_through() -> None:
    async def main() -> None:
        clock, gate, inner = LoopClock(asyncio.get_running_loop()), Gate(), Scripted(*[ok({})] * 3)
        transport = FlowControl(GatedTransport(inner, gate), ClientConnection(qps=1, burst=1), clock)
        cluster = KubeCluster(transport, clock, random=None)  # type: ignore[arg-type]  # only watches take chances
        refusals = list[ClusterError]()

        async def bind(name: str) -> None:
            try:
                await cluster.bind("default", name, "", "n")
            except ClusterError as error:
                refusals.append(error)

        async with anyio.create_task_group() as tasks:
            for name in "abc":
                tasks.start_soon(bind, name)
            await asyncio.sleep(1.5)
            gate.close()
        assert [request.path.rpartition("pods/")[2] for request in inner.requests] == ["a/binding", "b/binding"]
        assert [error.reason for error in refusals] == [STOPPED]

    run_virtual(main)


def test_what_the_server_put_off_does_not_get_through() -> None:
    async def main() -> None:
        clock, gate, inner = LoopClock(asyncio.get_running_loop()), Gate(), Scripted(refused(429, retry_after="5"))
        cluster = KubeCluster(GatedTransport(inner, gate), clock, random=None)  # type: ignore[arg-type]  # see above
        asyncio.get_running_loop().call_later(1.0, gate.close)
        with pytest.raises(ClusterError, match=WORDS):
            await cluster.delete(Pod, make_pod("web").metadata.name)
        assert len(inner.requests) == 1

    run_virtual(main)


def test_who_reads_waits_for_nobody() -> None:
    async def main() -> None:
        clock, gate, inner = LoopClock(asyncio.get_running_loop()), Gate(), Scripted(ok(some("web", 1)))
        gate.close()
        cluster = KubeCluster(GatedTransport(inner, gate), clock, random=None)  # type: ignore[arg-type]  # see above
        assert (await cluster.get(Pod, "web")).metadata.name == "web"

    run_virtual(main)
