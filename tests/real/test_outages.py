"""API server and etcd are killed while a scheduler binds, and return: no pod or event is lost, no node overfilled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.end_to_end.api import Api
from tests.end_to_end.processes import kframework, until
from tests.end_to_end.servers import Program, RealServer
from tests.real.objects import PODS, node, pod

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

#: So few requests a second that most pods are waiting for their turn when the outage begins, and a lease that outlasts
#: it on a busy machine.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 50s, retryPeriod: 2s}
clientConnection: {qps: 100, burst: 20}
"""

#: Pods that fill the nodes to the last place, and after how many bindings of them there is an outage.
NODES, PODS_PER_NODE = 20, 20
PODS_IN_ALL = NODES * PODS_PER_NODE
OUTAGES = PODS_IN_ALL // 4, PODS_IN_ALL // 2
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.parametrize("killed", [["api"], ["etcd"], ["api", "etcd"]], ids="-".join)
def test_all_pods_are_bound_through_outages(server: RealServer, api: Api, tmp_path: Path, killed: list[str]) -> None:
    config, kubeconfig = tmp_path / "config", tmp_path / "scheduler.kubeconfig"
    config.write_text(CONFIG)
    programs: list[Program] = [getattr(server, name) for name in killed]
    api.create("/api/v1/nodes", *(node(f"n{number}", cpu=PODS_PER_NODE) for number in range(NODES)))
    api.create(PODS, *(pod(f"p{number}") for number in range(PODS_IN_ALL)))
    arguments = "run", "--config", str(config), "--kubeconfig", str(kubeconfig), "--secure-port=0"
    with server.client(kubeconfig) as account, kframework(*arguments) as scheduler:
        for bound in OUTAGES:
            until(lambda bound=bound: len(account.bindings()) > bound)  # type: ignore[misc]  # mypy cannot infer it
            for program in programs:
                program.kill()
            for program in reversed(programs):
                program.start()
            server.wait()
        until(lambda: all("nodeName" in each["spec"] for each in api.items(PODS)))
        assert scheduler.stop() == 0
    there = Counter(each["spec"]["nodeName"] for each in api.items(PODS))
    assert len(there) == NODES and set(there.values()) == {PODS_PER_NODE}
    times = Counter(each.pod for each in account.bindings() if each.status == 201)
    assert set(times.values()) == {1}
    scheduled = {each["regarding"]["name"] for each in api.items(EVENTS) if each["reason"] == "Scheduled"}
    assert scheduled == {each["metadata"]["name"] for each in api.items(PODS)}
