"""kubectl drives a cluster that `kframework run` schedules, all of them as processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import fake_api
from tests.end_to_end.processes import Kubectl, kframework, until
from tests.end_to_end.servers import SERVERS, started

pytestmark = [pytest.mark.slow, pytest.mark.tool("kubectl"), pytest.mark.timeout(180)]


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kubectl]:
    """Start a cluster, a fake one if nothing else is said, and a scheduler for it."""
    with started(getattr(request, "param", "fake"), tmp_path) as server:
        kubeconfig = str(server.kubeconfig)
        with kframework("run", "--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0") as scheduler:
            yield Kubectl(server.kubeconfig)
            assert scheduler.stop() == 0


#: For tests of which nothing waits for kubelets or controllers.
on_either_server = pytest.mark.parametrize("kubectl", SERVERS, indirect=True)


Document = dict[str, object]


def node(name: str, cpu: str = "2") -> Document:
    room = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str = "1", labels: dict[str, str] | None = None, **spec: object) -> Document:
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def config_map(**data: str) -> Document:
    head: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "default"}}
    return head | ({"data": data} if data else {})


def given(kubectl: Kubectl, verb: str, *objects: Document) -> list[str]:
    """Create or apply objects; return what kubectl says of each."""
    manifest = {"apiVersion": "v1", "kind": "List", "items": objects}
    return kubectl(verb, "-f", "-", stdin=json.dumps(manifest)).splitlines()


def scheduled_to(kubectl: Kubectl, name: str) -> str:
    """Wait until a pod is scheduled, and say where."""
    kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "--timeout=40s")
    return kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def waits_because(kubectl: Kubectl, name: str, reason: str) -> None:
    """Wait until the pod's condition gives a reason why it is not scheduled."""
    path = 'jsonpath={.status.conditions[?(@.type=="PodScheduled")].message}'
    until(lambda: reason in kubectl("get", "pod", name, "-o", path))


@on_either_server
def test_pods_are_scheduled_and_described(kubectl: Kubectl) -> None:
    assert given(kubectl, "create", node("n1"), pod("web")) == ["node/n1 created", "pod/web created"]
    assert scheduled_to(kubectl, "web") == "n1"
    given(kubectl, "create", pod("big", cpu="3"))
    reason = (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    waits_because(kubectl, "big", reason)

    header, *rows = kubectl("get", "pods", "-o", "wide").splitlines()
    assert header.split() == "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES".split()
    assert {row.split()[0]: row.split()[-3] for row in rows} == {"web": "n1", "big": "<none>"}
    header, row = kubectl("get", "nodes").splitlines()
    assert (header.split(), row.split()[:3]) == (
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["n1", "Ready", "<none>"],
    )

    described = until(lambda: events_of(kubectl, "web"))
    assert described == [["Normal", "Scheduled", "default-scheduler", "Successfully assigned default/web to n1"]]
    assert until(lambda: events_of(kubectl, "big")) == [["Warning", "FailedScheduling", "default-scheduler", reason]]
    assert ["PodScheduled", "False"] in [line.split() for line in kubectl("describe", "pod", "big").splitlines()]
    listed = kubectl("get", "events", "--field-selector", "involvedObject.name=web,reason=Scheduled")
    assert "pod/web" in listed and "Successfully assigned default/web to n1" in listed
    on_node = kubectl("describe", "node", "n1")
    assert "default" in on_node and "web" in on_node and "big" not in on_node


def events_of(kubectl: Kubectl, name: str) -> list[list[str]]:
    """Read type, reason, source and message of each event from a pod's description."""
    _, _, events = kubectl("describe", "pod", name).partition("\nEvents:")
    rows = [line.split(maxsplit=2) for line in events.splitlines() if line.lstrip().startswith(("Normal", "Warning"))]
    return [[kind, reason, *source_and_message(rest)] for kind, reason, rest in rows]


def source_and_message(rest: str) -> tuple[str, str]:
    """Leave the age out, which may have several words."""
    _, source, message = rest.partition("default-scheduler")
    return source, message.strip()


@on_either_server
def test_labels_taints_and_cordons_take_effect_at_once(kubectl: Kubectl) -> None:
    given(kubectl, "create", node("n1"))
    given(kubectl, "create", pod("picky", cpu="100m", nodeSelector={"disk": "ssd"}))
    waits_because(kubectl, "picky", "1 node(s) didn't match Pod's node affinity/selector")
    assert kubectl("label", "node", "n1", "disk=ssd") == "node/n1 labeled\n"
    assert scheduled_to(kubectl, "picky") == "n1"

    assert kubectl("taint", "node", "n1", "team=red:NoSchedule") == "node/n1 tainted\n"
    given(kubectl, "create", pod("untolerant", cpu="100m"))
    waits_because(kubectl, "untolerant", "1 node(s) had untolerated taint(s)")
    assert kubectl("taint", "node", "n1", "team-") == "node/n1 untainted\n"
    assert scheduled_to(kubectl, "untolerant") == "n1"

    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    given(kubectl, "create", pod("late", cpu="100m"))
    waits_because(kubectl, "late", "1 node(s) were unschedulable")
    assert kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert scheduled_to(kubectl, "late") == "n1"


def test_deleted_pod_makes_room(kubectl: Kubectl) -> None:
    given(kubectl, "create", node("n1", cpu="1"), pod("first"))
    assert scheduled_to(kubectl, "first") == "n1"
    given(kubectl, "create", pod("second"))
    waits_because(kubectl, "second", "1 Insufficient cpu")
    assert kubectl("delete", "pod", "first", "--grace-period=1").startswith('pod "first" deleted')
    assert scheduled_to(kubectl, "second") == "n1"
    assert kubectl("delete", "node", "n1").startswith('node "n1" deleted')
    assert kubectl("get", "nodes", "-o", "name") == ""
    missing = kubectl.run("get", "node", "n1")
    assert (missing.returncode, missing.stderr) == (1, 'Error from server (NotFound): nodes "n1" not found\n')


@on_either_server
def test_client_side_apply_keeps_fields_of_others(kubectl: Kubectl) -> None:
    assert given(kubectl, "apply", node("n1"), pod("web")) == ["node/n1 created", "pod/web created"]
    assert scheduled_to(kubectl, "web") == "n1"
    kubectl("annotate", "pod", "web", "note=mine")
    assert given(kubectl, "apply", pod("web")) == ["pod/web unchanged"]
    assert given(kubectl, "apply", pod("web", labels={"app": "web"})) == ["pod/web configured"]
    assert kubectl("get", "pods", "-l", "app=web", "-o", "name") == "pod/web\n"
    kept = kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.annotations.note} {.spec.nodeName}")
    assert kept == "mine n1"


@on_either_server
def test_server_side_apply_tracks_field_managers(kubectl: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    web = json.dumps(config_map(size="1", colour="red"))
    assert kubectl(*server_side, stdin=web) == "configmap/web serverside-applied\n"
    larger = json.dumps(config_map(size="2"))
    refused = kubectl.run(*server_side, "--field-manager=other", stdin=larger)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        'error: Apply failed with 1 conflict: conflict with "kubectl": .data.size\n'
        "Please review the fields above--they currently have other managers."
    )
    forced = ("--field-manager=other", "--force-conflicts")
    told = kubectl.run("diff", "--server-side", *forced, "-f", "-", stdin=larger)
    assert (told.returncode, '+  size: "2"' in told.stdout.splitlines()) == (1, True)
    kubectl(*server_side, *forced, stdin=larger)
    kubectl(*server_side, stdin=json.dumps(config_map()))
    assert kubectl("get", "configmap", "web", "-o", "jsonpath={.data}") == '{"size":"2"}'
    assert "managedFields" not in kubectl("get", "configmap", "web", "-o", "yaml")
    owners = "jsonpath={.metadata.managedFields[*].manager}"
    assert kubectl("get", "configmap", "web", "--show-managed-fields", "-o", owners) == "other"

    given(kubectl, "apply", config_map(size="3"))
    applied = kubectl(*server_side, stdin=json.dumps(config_map(size="4")))
    assert applied == "configmap/web serverside-applied\n"


def test_watch_shows_the_phases_of_a_pod(kubectl: Kubectl) -> None:
    with kubectl.start("get", "pods", "--watch", "-o", "wide") as watch:
        given(kubectl, "create", pod("web"))
        assert watch.says("Pending").split()[0] == "web"
        given(kubectl, "create", node("n1"))
        running = watch.says("Running").split()
        assert (running[1], running[-3]) == ("1/1", "n1")
        kubectl("delete", "pod", "web", "--grace-period=1")
        assert watch.says("Terminating").split()[0] == "web"


def test_higher_priority_pod_preempts(kubectl: Kubectl) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    given(kubectl, "create", node("n1", cpu="1"), high, pod("low", terminationGracePeriodSeconds=1))
    assert scheduled_to(kubectl, "low") == "n1"
    uid = kubectl(
        "create", "-f", "-", "-o", "jsonpath={.metadata.uid}", stdin=json.dumps(pod("vip", priorityClassName="high"))
    )
    assert scheduled_to(kubectl, "vip") == "n1"
    assert kubectl("get", "pods", "-o", "name") == "pod/vip\n"
    reason = until(lambda: kubectl("get", "events", "--field-selector", "reason=Preempted", "--no-headers"))
    assert f"Preempted by pod {uid} on node n1" in reason
    assert ["Normal", "Scheduled", "default-scheduler", "Successfully assigned default/vip to n1"] in events_of(
        kubectl, "vip"
    )


def test_fake_kubelets_and_controllers_run(kubectl: Kubectl) -> None:
    budget = "create poddisruptionbudget web --selector=app=web --max-unavailable=1"
    kubectl(*budget.split())
    bare: Document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": {"pods": "10"}},
    }
    pods = [pod(name, "0", labels={"app": "web"}, terminationGracePeriodSeconds=1) for name in ("a", "b")]
    given(kubectl, "create", bare, *pods)
    kubectl("wait", "--for=condition=Ready", "node/n1", "pod/a", "pod/b", "--timeout=40s")
    row = kubectl("get", "pod", "a", "--no-headers", "-o", "wide").split()
    assert (row[1:3], row[5].split(".")[0]) == (["1/1", "Running"], "10")
    described = [line.split() for line in kubectl("describe", "pod", "a").splitlines()]
    assert ["State:", "Running"] in described and ["IP:", row[5]] in described
    until(lambda: kubectl("get", "pdb", "web", "--no-headers").split()[3] == "1")
    evicted = kubectl("drain", "n1", "--force")
    assert "pod/a evicted" in evicted and "pod/b evicted" in evicted
    empty = kubectl.run("create", "-f", "-", stdin=json.dumps(pod("none", containers=[])))
    assert empty.returncode == 1 and "spec.containers: Required value" in empty.stderr


def test_node_can_be_drained_and_namespace_deleted(kubectl: Kubectl) -> None:
    assert kubectl("create", "namespace", "team") == "namespace/team created\n"
    given(kubectl, "create", node("n1"), pod("web", terminationGracePeriodSeconds=1))
    kubectl("run", "mine", "--image=registry.example/app:1", "-n", "team")
    assert scheduled_to(kubectl, "web") == "n1"
    kubectl("wait", "--for=condition=PodScheduled", "pod/mine", "-n", "team", "--timeout=40s")
    assert kubectl("delete", "namespace", "team") == 'namespace "team" deleted\n'
    assert kubectl("get", "pods", "-A", "-o", "name") == "pod/web\n"
    assert "pod/web evicted" in kubectl("drain", "n1", "--ignore-daemonsets", "--force")
    assert kubectl("get", "pods", "-A", "-o", "name") == ""


@on_either_server
def test_misspelt_manifest_is_rejected_or_warned_about(kubectl: Kubectl) -> None:
    given(kubectl, "create", node("n1"))
    misspelt = json.dumps(pod("web", tolerrations=[]))
    refused = kubectl.run("apply", "-f", "-", stdin=misspelt)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[0].endswith(
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.tolerrations"'
    )
    told = kubectl.run("apply", "--validate=warn", "-f", "-", stdin=misspelt)
    assert (told.returncode, told.stdout) == (0, "pod/web created\n")
    assert told.stderr == 'Warning: unknown field "spec.tolerrations"\n'
    assert scheduled_to(kubectl, "web") == "n1"
    assert kubectl("label", "pod", "web", "a=b") == "pod/web labeled\n"


def test_claims_get_devices_and_release_them(kubectl: Kubectl) -> None:
    driver = "gpu.example.com"
    gpus = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    slices = [
        resource("ResourceSlice", f"slice-{name}", driver=driver, nodeName=name, pool=pool_of(name), devices=gpus)
        for name in ("n1", "n2")
    ]
    selectors = [{"cel": {"expression": f"device.driver == {driver!r}"}}]
    asked = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver}}]}}
    given(
        kubectl,
        "create",
        *(node("n1"), node("n2"), *slices),
        resource("DeviceClass", driver, selectors=selectors, extendedResourceName="example.com/gpu"),
        resource("ResourceClaimTemplate", "one", spec=asked),
        resource("ResourceClaim", "shared", **asked),
        pod("own", cpu="100m", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}]),
        pod("first", cpu="100m", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}]),
        pod("second", cpu="100m", resourceClaims=[{"name": "gpu", "resourceClaimName": "shared"}]),
    )
    assert scheduled_to(kubectl, "own") in ("n1", "n2")
    assert scheduled_to(kubectl, "first") == scheduled_to(kubectl, "second")
    users = kubectl("get", "resourceclaim", "shared", "-o", "jsonpath={.status.reservedFor[*].name}")
    assert sorted(users.split()) == ["first", "second"]
    assert [state for _, state in states_of_claims(kubectl)] == ["allocated,reserved"] * 2

    extended = pod("extended", cpu="100m")
    extended["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}  # type: ignore[index]
    given(kubectl, "create", extended)
    scheduled_to(kubectl, "extended")
    told = kubectl("get", "pod", "extended", "-o", "jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}")
    assert told.startswith("extended-extended-resources-")
    assert told in kubectl("get", "resourceclaims")

    kubectl("delete", "pod", "own", "extended", "first", "second", "--now")
    until(lambda: states_of_claims(kubectl) == [["shared", "pending"]])


def states_of_claims(kubectl: Kubectl) -> list[list[str]]:
    _, *rows = kubectl("get", "resourceclaims").splitlines()
    return [row.split()[:2] for row in rows]


def resource(kind: str, name: str, **spec: object) -> Document:
    """Make an object of dynamic resource allocation."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def pool_of(node_name: str) -> Document:
    return {"name": node_name, "generation": 1, "resourceSliceCount": 1}


def test_user_has_the_permissions_of_cluster_roles() -> None:
    with fake_api("--authorization-mode", "RBAC") as (_, kubeconfig):
        kubectl = Kubectl(kubeconfig)
        assert "kubernetes-admin" in kubectl("auth", "whoami")
        kubectl("create", "rolebinding", "bob", "--clusterrole=view", "--user=bob")
        assert kubectl("get", "pods", "--as", "bob", "-o", "name") == ""
        assert "pods" in kubectl("auth", "can-i", "--list", "--as", "bob")
