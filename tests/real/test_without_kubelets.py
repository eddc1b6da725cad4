"""What others do in their own time is awaited: victims that take leave, and claims that a provisioner has to bind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.api import Api, Json
from tests.end_to_end.processes import Running, kframework, until
from tests.end_to_end.servers import RealServer
from tests.real.objects import PODS, node, pod

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
WAITS = {"metadata": {"name": "waits"}, "provisioner": "example.com/none", "volumeBindingMode": "WaitForFirstConsumer"}
HIGH = {"metadata": {"name": "high"}, "value": 1000}


@pytest.fixture(autouse=True)
def scheduler(server: RealServer) -> Iterator[Running]:
    """Schedule while a test goes on."""
    arguments = "--kubeconfig", str(server.kubeconfig), "--leader-elect=false", "--secure-port=0"
    with kframework("run", *arguments) as scheduler:
        yield scheduler
        assert scheduler.stop() == 0


def test_preemptor_waits_for_its_victim_and_respects_budgets(api: Api) -> None:
    budget = {"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    api.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", HIGH)
    api.create("/api/v1/nodes", node("n1", cpu=1), node("n2", cpu=1))
    spared, victim = pod("spared"), pod("victim")
    victim["metadata"]["labels"] = {"app": "other"}
    api.create(PODS, spared, victim)
    until(lambda: place(api, "spared") and place(api, "victim"))
    api.create(PODS, pod("vip", priorityClassName="high"))
    until(lambda: api.ask("GET", f"{PODS}/victim")["metadata"].get("deletionTimestamp"))
    until(lambda: api.ask("GET", f"{PODS}/vip")["status"].get("nominatedNodeName") == place(api, "victim"))
    disrupted = {each["type"]: each.get("reason") for each in api.ask("GET", f"{PODS}/victim")["status"]["conditions"]}
    assert disrupted["DisruptionTarget"] == "PreemptionByScheduler"
    room = place(api, "victim")
    assert not place(api, "vip")
    api.ask("DELETE", f"{PODS}/victim?gracePeriodSeconds=0")
    assert until(lambda: place(api, "vip")) == room
    assert "deletionTimestamp" not in api.ask("GET", f"{PODS}/spared")["metadata"]


def test_pod_waits_for_the_volume_of_its_claim(api: Api) -> None:
    api.create("/apis/storage.k8s.io/v1/storageclasses", WAITS)
    api.create("/api/v1/nodes", node("n1", cpu=1))
    space: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": "waits"}
    api.create(CLAIMS, {"metadata": {"name": "data"}, "spec": {**space, "resources": {"requests": {"storage": "1Gi"}}}})
    api.create(PODS, pod("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]))
    claim = until(lambda: chosen(api.ask("GET", f"{CLAIMS}/data")))
    assert not place(api, "web")
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": claim["metadata"]["uid"],
    }
    volume = {**space, "capacity": {"storage": "1Gi"}, "claimRef": reference, "hostPath": {"path": "/data"}}
    api.create("/api/v1/persistentvolumes", {"metadata": {"name": "v"}, "spec": volume})
    claim["spec"]["volumeName"] = "v"
    claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
    bound = api.ask("PUT", f"{CLAIMS}/data", claim)
    status = {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    api.ask("PUT", f"{CLAIMS}/data/status", {**bound, "status": status})
    assert until(lambda: place(api, "web")) == "n1"


def place(api: Api, name: str) -> str:
    return str(api.ask("GET", f"{PODS}/{name}")["spec"].get("nodeName", ""))


def chosen(claim: Json) -> Json:
    """Return a claim for which the scheduler has chosen a node, else nothing."""
    annotations = claim["metadata"].get("annotations", {})
    return claim if annotations.get("volume.kubernetes.io/selected-node") == "n1" else {}
