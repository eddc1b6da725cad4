"""What kubelets report follows from the rest of the document, and gives way to what is said."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import pytest

from kframework.fake_api.local_cluster import with_kubelet_status
from kframework.fake_api.printers.workloads import pod_cells
from kframework.fake_api.wire.documents import ApiDocument
from kframework.objects import Lease, Node, ObjectMeta, Pod, kind_of
from kframework.objects.codec import convert

#: A JSON document of the API, or a part of it.
Json = dict[str, Any]

CREATED, STARTED, ENDED = (f"2026-01-01T00:00:0{second}Z" for second in range(3))
READY = {"type": "Ready", "status": "True", "lastTransitionTime": STARTED}
NOT_READY = {"type": "Ready", "status": "False", "lastTransitionTime": ENDED}
RUNNING: Json = {"phase": "Running", "startTime": STARTED, "conditions": [READY]}
SUCCEEDED: Json = {"phase": "Succeeded", "startTime": STARTED, "conditions": [NOT_READY]}
FAILED: Json = {"phase": "Failed"}
RUNS: Json = {"running": {"startedAt": STARTED}}


def node(**status: object) -> Json:
    metadata = {"name": "n1", "creationTimestamp": CREATED}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(status: Json, uid: str = "u1", **spec: object) -> Json:
    metadata = {"name": "web", "namespace": "default", "uid": uid, "creationTimestamp": CREATED}
    containers = [{"name": "main", "image": "nginx"}, {"name": "log", "image": "tail"}]
    spec = {"nodeName": "n1", "containers": containers} | spec
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def document(data: Json) -> ApiDocument:
    subject = convert(data, kind_of(Node)) if data["kind"] == "Node" else convert(data, kind_of(Pod))
    return ApiDocument(subject, msgspec.json.encode(data))


def status_of(data: Json) -> Json:
    """Return the status that is reported, and see that a second report says the same and the rest is left alone."""
    once = with_kubelet_status(document(data))
    assert with_kubelet_status(document(once.data)).body == once.body
    assert {**once.data, "status": None} == {**data, "status": None}
    status: Json = msgspec.json.decode(once.body)["status"]
    return status


def container(name: str, image: str, state: Json, **more: object) -> Json:
    runs = "running" in state
    result = {"name": name, "image": image, "imageID": "", "ready": runs, "started": runs, "restartCount": 0}
    return result | {"state": state} | more


def test_node_is_ready_by_default() -> None:
    status = status_of(node(capacity={"cpu": "4"}))
    assert status["capacity"] == {"cpu": "4"}
    assert status["conditions"] == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastTransitionTime": CREATED,
            "lastHeartbeatTime": CREATED,
        }
    ]
    address, hostname = status["addresses"]
    assert ipaddress.ip_address(address["address"]) in ipaddress.ip_network("10.0.0.0/9")
    assert (address["type"], hostname) == ("InternalIP", {"type": "Hostname", "address": "n1"})


def test_stored_node_status_takes_precedence() -> None:
    pressure = {"type": "MemoryPressure", "status": "True"}
    addresses = [{"type": "InternalIP", "address": "192.0.2.7"}]
    status = status_of(node(conditions=[pressure, NOT_READY], addresses=addresses))
    assert status == {"conditions": [pressure, NOT_READY], "addresses": addresses}
    conditions = status_of(node(conditions=[pressure]))["conditions"]
    assert [each["type"] for each in conditions] == ["MemoryPressure", "Ready"]


def test_running_pod_has_addresses_and_container_statuses() -> None:
    status = status_of(pod(RUNNING))
    assert status["containerStatuses"] == [container("main", "nginx", RUNS), container("log", "tail", RUNS)]
    assert "initContainerStatuses" not in status
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert ipaddress.ip_address(status["podIP"]) in ipaddress.ip_network("10.128.0.0/9")
    (host, _) = status_of(node())["addresses"]
    assert (status["hostIP"], status["hostIPs"]) == (host["address"], [{"ip": host["address"]}])
    assert {field: status[field] for field in RUNNING} == RUNNING


def test_pods_have_distinct_addresses_except_on_the_host_network() -> None:
    assert len({str(status_of(pod(RUNNING, f"u{number}"))["podIP"]) for number in range(100)}) == 100
    status = status_of(pod(RUNNING, hostNetwork=True))
    assert status["podIP"] == status["hostIP"]


@pytest.mark.parametrize("data", [pod({"phase": "Pending"}), pod(RUNNING, nodeName=""), pod({})])
def test_pending_pod_is_unchanged(data: Json) -> None:
    subject = document(data)
    assert with_kubelet_status(subject) is subject


def test_other_kinds_are_unchanged() -> None:
    lease = ApiDocument.from_struct(Lease(metadata=ObjectMeta(name="a")))
    assert with_kubelet_status(lease) is lease


def test_running_pod_is_ready_by_default() -> None:
    status = status_of(pod({"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}))
    first, *added = status["conditions"]
    assert first == {"type": "PodScheduled", "status": "True"}
    assert added == [
        {"type": name, "status": "True", "lastTransitionTime": CREATED}
        for name in ("Initialized", "ContainersReady", "Ready")
    ]
    assert status_of(pod(RUNNING | {"conditions": [NOT_READY]}))["conditions"] == [NOT_READY]


@pytest.mark.parametrize(
    ("status", "end"),
    [
        (SUCCEEDED, {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": ENDED}),
        (FAILED, {"exitCode": 1, "reason": "Error"}),
    ],
)
def test_containers_terminate_with_their_pod(status: Json, end: Json) -> None:
    before = status_of(pod(RUNNING)) | status
    for given in (status, before):
        main, log = status_of(pod(given))["containerStatuses"]
        expected = end if given is status else {"startedAt": STARTED} | end
        assert main == container("main", "nginx", {"terminated": expected})
        assert log == container("log", "tail", {"terminated": expected})


def test_stored_container_status_takes_precedence() -> None:
    crashed = {"name": "log", "ready": False, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    main, log = status_of(pod(RUNNING | {"containerStatuses": [crashed]}))["containerStatuses"]
    assert main == container("main", "nginx", RUNS)
    assert log == {"image": "tail", "imageID": "", "started": True} | crashed
    ended = {"name": "main", "ready": False, "state": {"terminated": {"exitCode": 3}}}
    main, _ = status_of(pod(FAILED | {"containerStatuses": [ended]}))["containerStatuses"]
    assert main["state"] == ended["state"]


def test_init_containers_are_terminated_except_sidecars() -> None:
    setup, mesh = {"name": "setup", "image": "i"}, {"name": "mesh", "image": "j", "restartPolicy": "Always"}
    data = pod(RUNNING, initContainers=[setup, mesh])
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": STARTED}}
    assert status_of(data)["initContainerStatuses"] == [container("setup", "i", done), container("mesh", "j", RUNS)]
    assert pod_cells(with_kubelet_status(document(data)).data, 0)[1:3] == ("3/3", "Running")
    assert pod_cells(with_kubelet_status(document(pod(SUCCEEDED, initContainers=[setup]))).data, 0)[1:3] == (
        "0/2",
        "Completed",
    )


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_pod_has_a_qos_class(resources: Json, expected: str) -> None:
    result = pod(RUNNING, containers=[{"name": "main", "image": "nginx", "resources": resources}])
    assert status_of(result)["qosClass"] == expected
