"""The manifests of `deploy` grant what the scheduler needs: it works as that account, and says what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.api import Api
from tests.end_to_end.processes import Kubectl, Running, kframework, until
from tests.end_to_end.servers import RealServer
from tests.examples.clean_environment import ROOT
from tests.real.objects import PODS, node, pod

pytestmark = [pytest.mark.real, pytest.mark.tool("kubectl"), pytest.mark.timeout(180)]

ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def deployed(server: RealServer, tmp_path: Path) -> Iterator[Running]:
    """Apply the manifests and run what they run, as the account that they give it."""
    Kubectl(server.kubeconfig)("apply", "-k", str(ROOT / "deploy"))
    kubeconfig = tmp_path / "account.kubeconfig"
    server.account("kframework", "kframework", kubeconfig)
    config = ROOT / "deploy" / "config.yaml"
    with kframework("run", "--config", str(config), "--kubeconfig", str(kubeconfig), "--secure-port=0") as scheduler:
        yield scheduler


def test_service_account_has_all_needed_rights(api: Api, deployed: Running) -> None:
    deployed.says("leading as ")
    high = {"metadata": {"name": "high"}, "value": 1000}
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", high)
    api.create("/api/v1/nodes", node("n1", cpu=1))
    api.create(PODS, pod("low", schedulerName="kframework"))
    until(lambda: api.ask("GET", f"{PODS}/low")["spec"].get("nodeName"))
    api.create(PODS, pod("vip", schedulerName="kframework", priorityClassName="high"))
    until(lambda: "deletionTimestamp" in api.ask("GET", f"{PODS}/low")["metadata"])
    api.ask("DELETE", f"{PODS}/low?gracePeriodSeconds=0")
    until(lambda: api.ask("GET", f"{PODS}/vip")["spec"].get("nodeName"))
    expected = {("Scheduled", "kframework"), ("Preempted", "kframework"), ("FailedScheduling", "kframework")}
    until(lambda: expected <= result(api))
    until(lambda: any(e["reason"] == "LeaderElection" for e in api.items("/api/v1/namespaces/kframework/events")))
    assert deployed.stop() == 0
    assert not deployed.said("forbidden")


def result(api: Api) -> set[tuple[str, str]]:
    """Return the reasons of all events in the namespace, and their reporters."""
    events = api.items("/apis/events.k8s.io/v1/namespaces/default/events")
    return {(event["reason"], event.get("reportingController", "")) for event in events}


def test_missing_right_is_named(api: Api, deployed: Running) -> None:
    role = api.ask("GET", f"{ROLES}/clusterroles/kframework")
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    api.ask("PUT", f"{ROLES}/clusterroles/kframework", role)
    deployed.says("leading as ")
    api.create("/api/v1/nodes", node("n1", cpu=1))
    api.create(PODS, pod("web", schedulerName="kframework"))
    assert 'cannot create resource "pods/binding"' in deployed.says("forbidden").replace("\\", "")
