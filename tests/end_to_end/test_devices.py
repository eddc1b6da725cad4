"""A leader is killed while pods' devices are made ready, between PreBind and Bind: another one goes on from there."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.end_to_end.api import Followed, Json
from tests.end_to_end.processes import Kubectl, until
from tests.end_to_end.replicas import Crew
from tests.end_to_end.servers import started

pytestmark = [pytest.mark.slow, pytest.mark.tool("kubectl"), pytest.mark.timeout(180)]

DRIVER = "gpu.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
#: Each has to be made ready before a pod is bound that got it.
GPUS = [{"name": f"gpu-{n}", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]} for n in range(4)]


class Site(NamedTuple):
    """A cluster of one node with four devices, its replicas, and what becomes of claims."""

    crew: Crew
    kubectl: Kubectl
    claims: Followed

    def create(self, *objects: Json) -> None:
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def waits_ready(self, *pods: str) -> None:
        """Wait until claims are reserved for exactly these pods, one each at least."""
        until(lambda: sorted({user for claim in self.current() for user in users(claim)}) == sorted(pods))

    def current(self) -> list[Json]:
        return self.crew.api.items(CLAIMS)

    def make_ready(self) -> None:
        """Let the driver report all allocated devices as ready."""
        for claim in self.current():
            told = [
                {**of, "conditions": [{**READY, "lastTransitionTime": "2026-01-01T00:00:00Z"}]} for of in devices(claim)
            ]
            patch = json.dumps({"status": {"devices": told}})
            if told and claim["status"].get("devices") is None:
                name = claim["metadata"]["name"]
                # It may be gone, or have got another device, before the driver has said so.
                self.kubectl.run("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", patch)

    def all_run(self, *pods: str) -> bool:
        nodes = self.kubectl("get", "pods", *pods, "-o", "jsonpath={.items[*].spec.nodeName}")
        return nodes.split() == ["n1"] * len(pods)


READY = {"type": "ready", "status": "True", "reason": "Prepared", "message": ""}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with started("fake", tmp_path) as server, ExitStack() as stack:
        crew = Crew(tmp_path, server, stack)
        claims = stack.enter_context(crew.api.follow(CLAIMS))
        yield Site(crew, Kubectl(server.kubeconfig), claims)
        assert {each.running.stop() for each in crew.alive} <= {0}


def resource(kind: str, name: str, **spec: object) -> Json:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def pod(name: str, limits: Json | None = None, **claims: str) -> Json:
    """Make a pod that uses a claim: `resourceClaimName=`, or `resourceClaimTemplateName=`."""
    container = {"name": "main", "image": "app", "resources": {"limits": limits or {}}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claims}] if claims else []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def users(claim: Json) -> list[str]:
    """Name the pods that a claim is reserved for."""
    return [each["name"] for each in claim.get("status", {}).get("reservedFor", [])]


def devices(claim: Json) -> list[Json]:
    """Name the devices that a claim has."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [{key: each[key] for key in ("driver", "pool", "device")} for each in results]


def given_twice(changes: list[Json]) -> list[str]:
    """Name the devices that two claims had at any time."""
    found, had = list[str](), dict[str, list[str]]()
    for change in changes:
        claim = change["object"]
        had[claim["metadata"]["uid"]] = [each["device"] for each in devices(claim) if change["type"] != "DELETED"]
        in_use = [device for each in had.values() for device in each]
        found += {device for device in in_use if in_use.count(device) > 1}
    return found


def test_killed_leader_is_replaced_while_devices_become_ready(site: Site) -> None:
    leader, standby = site.crew.two()
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    site.create(
        {**node, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}},
        resource(
            "ResourceSlice",
            "n1",
            driver=DRIVER,
            nodeName="n1",
            pool={"name": "n1", "generation": 1, "resourceSliceCount": 1},
            devices=GPUS,
        ),
        resource("DeviceClass", DRIVER, extendedResourceName="example.com/gpu"),
        resource("ResourceClaimTemplate", "one", spec=asked),
        resource("ResourceClaim", "shared", **asked),
        pod("own", resourceClaimTemplateName="one"),
        pod("leaves", resourceClaimTemplateName="one"),
        pod("first", resourceClaimName="shared"),
        pod("second", resourceClaimName="shared"),
        pod("extended", {"example.com/gpu": "1"}),
    )
    site.waits_ready("own", "leaves", "first", "second", "extended")
    leader.running.process.send_signal(signal.SIGKILL)
    assert not site.all_run("own"), "PreBind waits for the devices"
    site.kubectl("delete", "pod", "leaves", "--now")
    site.create(pod("late", resourceClaimTemplateName="one"))
    standby.leads_as()
    pods = ["own", "first", "second", "extended", "late"]

    def run() -> bool:
        site.make_ready()
        return site.all_run(*pods)

    until(run)
    claims = site.current()
    assert sorted(users(claim) for claim in claims) == [["extended"], ["first", "second"], ["late"], ["own"]]
    assert sorted(each["device"] for claim in claims for each in devices(claim)) == [each["name"] for each in GPUS]
    assert given_twice(site.claims.changes) == []
    site.kubectl("delete", "pod", *pods, "--now")
    until(lambda: [(claim["metadata"]["name"], devices(claim)) for claim in site.current()] == [("shared", [])])
