"""The row of a pod, in every state that kubectl has a word for."""

from __future__ import annotations

import pytest

from kframework.fake_api.printers.workloads import pod_cells

ApiDocument = dict[str, object]

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
CREATED = "2026-01-01T00:59:30Z"
READY = {"type": "Ready", "status": "True"}
GATED = {"type": "PodScheduled", "reason": "SchedulingGated"}
INITIALIZED = {"type": "Initialized", "status": "True"}


def container(
    state: ApiDocument | None = None, *, name: str = "main", restarts: int = 0, **more: object
) -> ApiDocument:
    return {"name": name, "state": state or {"running": {}}, "ready": state is None, "restartCount": restarts, **more}


def setup(state: ApiDocument | None = None, restarts: int = 0) -> ApiDocument:
    return container(state, name="setup", restarts=restarts)


def ended(code: int = 0, reason: str = "", signal: int = 0) -> ApiDocument:
    return {"terminated": {"exitCode": code, "reason": reason, "signal": signal}}


def waits(reason: str) -> ApiDocument:
    return {"waiting": {"reason": reason}}


def sidecar(*, started: bool = True, restarts: int = 0) -> ApiDocument:
    return container(name="mesh", started=started, restarts=restarts)


def pod(
    phase: str = "Running", *statuses: ApiDocument, init: tuple[ApiDocument, ...] = (), **status: object
) -> ApiDocument:
    return {
        "metadata": {"name": "a", "creationTimestamp": CREATED},
        "spec": {
            "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
            "containers": [{"name": "main"}],
        },
        "status": {"phase": phase, "containerStatuses": [*statuses], "initContainerStatuses": [*init], **status},
    }


@pytest.mark.parametrize(
    ("document", "ready", "word", "restarts"),
    [
        (pod("Pending"), "0/2", "Pending", "0"),
        (pod("Pending", conditions=[GATED]), "0/2", "SchedulingGated", "0"),
        (pod("Running", container()), "1/2", "Running", "0"),
        (pod("Running"), "0/2", "Running", "0"),
        (pod("Running", conditions=[READY]), "0/2", "Running", "0"),
        (pod("Running", container(), init=(sidecar(),)), "2/2", "Running", "0"),
        (pod("Failed", reason="Evicted"), "0/2", "Evicted", "0"),
        (pod("Pending", container(waits("ImagePullBackOff"))), "0/2", "ImagePullBackOff", "0"),
        (pod("Succeeded", container(ended(reason="Completed"))), "0/2", "Completed", "0"),
        (pod("Failed", container(ended(1, "Error"))), "0/2", "Error", "0"),
        (pod("Failed", container(ended(3))), "0/2", "ExitCode:3", "0"),
        (pod("Failed", container(ended(137, signal=9))), "0/2", "Signal:9", "0"),
        (pod("Running", container(ended(reason="Completed")), container(), conditions=[READY]), "1/2", "Running", "0"),
        (pod("Running", container(ended(reason="Completed")), container()), "1/2", "NotReady", "0"),
        (pod("Failed", container(ended(reason="Completed")), container(ended(1, "Error"))), "0/2", "Error", "0"),
        (pod("Running", container(restarts=3)), "1/2", "Running", "3"),
        (
            pod("Running", container(restarts=3, lastState={"terminated": {"finishedAt": "2026-01-01T00:50:00Z"}})),
            "1/2",
            "Running",
            "3 (10m ago)",
        ),
        (pod("Pending", init=(setup(waits("PodInitializing")),)), "0/2", "Init:0/2", "0"),
        (pod("Pending", init=(setup(waits("CrashLoopBackOff")),)), "0/2", "Init:CrashLoopBackOff", "0"),
        (pod("Pending", init=(setup(ended(1, "Error"), restarts=2),)), "0/2", "Init:Error", "2"),
        (pod("Pending", init=(setup(ended(1)),)), "0/2", "Init:ExitCode:1", "0"),
        (pod("Pending", init=(setup(ended(1, signal=9)),)), "0/2", "Init:Signal:9", "0"),
        (pod("Pending", init=(setup(ended()), sidecar(started=False))), "0/2", "Init:1/2", "0"),
        (
            pod("Pending", container(waits("PodInitializing")), init=(setup(ended(), restarts=2),)),
            "0/2",
            "PodInitializing",
            "0",
        ),
        (pod("Pending", init=(setup(ended()), sidecar(restarts=4))), "1/2", "Pending", "4"),
        (
            pod("Running", container(), init=(setup(),), conditions=[INITIALIZED]),
            "1/2",
            "Init:0/2",
            "0",
        ),
    ],
)
def test_every_pod_state_has_a_status(document: ApiDocument, ready: str, word: str, restarts: str) -> None:
    assert pod_cells(document, NOW)[:5] == ("a", ready, word, restarts, "30s")


@pytest.mark.parametrize(
    ("phase", "reason", "word"),
    [("Running", "", "Terminating"), ("Running", "NodeLost", "Unknown"), ("Succeeded", "", "Completed")],
)
def test_deleted_pod_is_terminating(phase: str, reason: str, word: str) -> None:
    document = pod(phase, container(ended(reason="Completed")), reason=reason)
    document["metadata"] = {"name": "a", "deletionTimestamp": "2026-01-01T01:00:00Z"}
    assert pod_cells(document, NOW)[2:5] == (word, "0", "<unknown>")


def test_wide_columns_show_addresses_and_nodes() -> None:
    assert pod_cells({}, NOW) == ("", "0/0", "Pending", "0", "<unknown>", *["<none>"] * 4)
    document: ApiDocument = {
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "X"}, {"conditionType": "Y"}]},
        "status": {
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}],
            "nominatedNodeName": "n2",
            "conditions": [{"type": "X", "status": "True"}, {"type": "Y", "status": "False"}],
        },
    }
    assert pod_cells(document, NOW)[5:] == ("10.0.0.1", "n1", "n2", "1/2")
