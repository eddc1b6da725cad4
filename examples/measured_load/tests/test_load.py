"""MeasuredLoad, against a server that really listens, and on data that a scenario plays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from threading import Thread

import pytest
from measured_load import MeasuredLoad
from measured_load.server import LoadServer

from kframework.testing import PluginContract, Scenario, check_plugin, create, make_node, make_pod

NODES = [make_node("a"), make_node("b"), make_node("c")]


@pytest.fixture
def server() -> Iterator[LoadServer]:
    with LoadServer({"a": 0.95, "b": 0.6, "c": 0.2}) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def scenario(url: str = "http://127.0.0.1:1") -> Scenario:
    args = {"MeasuredLoad": {"url": url}}
    return Scenario(
        nodes=NODES, pods=[make_pod("web")], plugins=[MeasuredLoad], args=args, weights={"MeasuredLoad": 10}
    )


def test_idle_node_is_preferred(server: LoadServer) -> None:
    assert scenario(server.url).run().node_of("web") == "c"


def test_busy_node_is_rejected_until_idle(server: LoadServer) -> None:
    server.load = {"a": 0.95, "b": 0.99, "c": 0.91}
    world = scenario(server.url).at(60, lambda cluster: server.load.update(b=0.5))
    result = world.run(until=120)
    assert result.node_of("web") == "b"
    assert result.decisions_on("web")[-1].requeued_by == "MeasuredLoad/load"


def test_node_without_measurement_is_neutral(server: LoadServer) -> None:
    server.load = {"a": 0.95, "b": math.nan, "c": 0.9}
    assert scenario(server.url).run().node_of("web") == "b"


def test_stale_measurements_are_ignored(server: LoadServer) -> None:
    server.load = {"a": 1.0, "b": 1.0, "c": 1.0}
    world = scenario(server.url)
    world.at(30, lambda cluster: setattr(server, "error_status", 503)).at(100, create(make_pod("early")))
    result = world.at(200, create(make_pod("late"))).run(until=300)
    woken = {name: result.decisions_on(name)[-1] for name in ("web", "early", "late")}
    assert all(result.node_of(name) for name in woken)
    assert woken["web"].popped_at == woken["early"].popped_at < woken["late"].popped_at


def test_unreachable_server_blocks_no_pods() -> None:
    assert scenario().run().node_of("web")


class TestContract(PluginContract):
    plugin = MeasuredLoad
    args = {"url": "http://127.0.0.1:1"}
    sources = {"load": {f"node-{i}": i / 4 for i in range(5)}}


@pytest.mark.slow
def test_contract_is_checked_with_busy_and_idle_nodes() -> None:
    reached = check_plugin(MeasuredLoad, args=TestContract.args, sources=TestContract.sources)
    assert reached.passes and reached.reasons["node(s) were more than 90% busy"]
