"""kubectl drives a fake cluster that `kframework batch run` schedules; the objects are as in Volcano's documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.processes import Kubectl, kframework, until

pytestmark = [pytest.mark.slow, pytest.mark.tool("kubectl"), pytest.mark.timeout(180)]

#: Of several kinds called pod group, or job, this is Volcano's.
GROUPS, JOBS = "podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "20"}}
"""

QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: research
spec:
  weight: 1
  reclaimable: false
  capability:
    cpu: 8
"""

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: mpi
spec:
  minAvailable: 3
  schedulerName: volcano
  queue: research
  plugins:
    ssh: []
    svc: []
  policies:
    - event: PodEvicted
      action: RestartJob
  tasks:
    - replicas: 1
      name: master
      policies:
        - event: TaskCompleted
          action: CompleteJob
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: main
              image: example.com/mpi:1
              command: ["/bin/sh", "-c", "mpiexec"]
              resources: {requests: {cpu: 1}}
          restartPolicy: OnFailure
    - replicas: 2
      name: worker
      template:
        spec:
          terminationGracePeriodSeconds: 1
          containers:
            - name: main
              image: example.com/mpi:1
              resources: {requests: {cpu: 2}}
          restartPolicy: OnFailure
"""

COMMAND = """
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {generateName: mpi-}
action: %s
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mpi, uid: ""}
"""

GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 3}
"""

MEMBER = """
apiVersion: v1
kind: Pod
metadata: {name: gang-%d, annotations: {scheduling.k8s.io/group-name: gang}}
spec:
  schedulerName: volcano
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: example.com/app:1, resources: {requests: {cpu: 2500m}}}]
"""

PLAIN = """
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  schedulerName: volcano
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: example.com/app:1, resources: {requests: {cpu: 1}}}]
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    """Start a fake cluster, and what schedules it and makes pods of jobs."""
    kubeconfig = tmp_path / "kubeconfig"
    with kframework("fake-api", "--port", "0", "--write-kubeconfig", str(kubeconfig)) as fake_api:
        fake_api.says(f"export KUBECONFIG={kubeconfig}")
        options = ["--controllers", "--leader-elect=false", "--secure-port=0", "--period=100ms"]
        with kframework("batch", "run", "--kubeconfig", str(kubeconfig), *options) as scheduler:
            yield Kubectl(kubeconfig)
            assert scheduler.stop() == 0
        assert fake_api.stop() == 0


def apply(kubectl: Kubectl, folder: Path, **documents: str) -> list[str]:
    """Write the documents into files and apply these; return what kubectl says of each object."""
    for name, document in documents.items():
        (folder / f"{name}.yaml").write_text(document)
    files = (f"--filename={folder / name}.yaml" for name in documents)
    return kubectl("apply", *files).splitlines()


def places(kubectl: Kubectl) -> dict[str, str]:
    """Return the nodes of all pods."""
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}


def status(kubectl: Kubectl, *subject: str) -> dict[str, Any]:
    """Return the status of an object."""
    found: dict[str, dict[str, Any]] = json.loads(kubectl("get", *subject, "-o", "json"))
    return found.get("status", {})


def test_job_creates_pods_that_run_together_and_are_deleted_with_it(kubectl: Kubectl, tmp_path: Path) -> None:
    said = apply(kubectl, tmp_path, nodes=f"{NODE % 'n1'}---{NODE % 'n2'}", queue=QUEUE, job=JOB)
    assert said[2:] == ["queue.scheduling.volcano.sh/research created", "job.batch.volcano.sh/mpi created"]
    assert until(lambda: status(kubectl, JOBS, "mpi").get("state", {}).get("phase") == "Running")
    nodes = places(kubectl)
    assert nodes.keys() == {"mpi-master-0", "mpi-worker-0", "mpi-worker-1"}
    assert set(nodes.values()) == {"n1", "n2"}
    group = kubectl("get", GROUPS, "-o", "jsonpath={.items[*].metadata.name}")
    assert until(lambda: status(kubectl, GROUPS, group)["phase"] == "Running")
    assert until(lambda: status(kubectl, "queue", "research")["allocated"]["cpu"] == "5")
    assert status(kubectl, "queue", "research")["state"] == "Open"
    headers, job = (line.split() for line in kubectl("get", "vj").splitlines())
    assert (headers, job[:4]) == (["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"], ["mpi", "Running", "3", "3"])
    for name in ("podgroups", "pg"):
        headers, found = (line.split() for line in kubectl("get", name).splitlines())
        assert (headers, found[:3]) == (["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE"], [group, "Running", "3"])
    assert kubectl("get", "q").split() == ["NAME", "PARENT", "default", "research", "root"]

    worker = json.loads(kubectl("get", "pod", "mpi-worker-1", "-o", "json"))["spec"]
    assert (worker["hostname"], worker["subdomain"]) == ("mpi-worker-1", "mpi")
    assert {each["mountPath"] for each in worker["containers"][0]["volumeMounts"]} >= {"/etc/volcano"}
    assert "mpi-worker-0.mpi,mpi-worker-1.mpi" in kubectl("get", "cm", "mpi-svc", "-o", "yaml")
    for action, phase in (("AbortJob", "Aborted"), ("ResumeJob", "Running")):
        assert kubectl("create", "-f", "-", stdin=COMMAND % action).startswith("command.bus.volcano.sh/mpi-")
        kubectl("wait", f"--for=jsonpath={{.status.state.phase}}={phase}", f"{JOBS}/mpi", "--timeout=40s")
    assert kubectl("get", "commands", "-o", "name") == ""

    assert kubectl("delete", "-f", str(tmp_path / "job.yaml")) == 'job.batch.volcano.sh "mpi" deleted\n'
    kinds = f"pods,{GROUPS},cm,secrets,services,netpol"
    assert until(lambda: kubectl("get", kinds, "-o", "name") == "configmap/kube-root-ca.crt\nservice/kubernetes\n")


def test_gang_is_bound_as_a_whole_or_has_a_message(kubectl: Kubectl, tmp_path: Path) -> None:
    members = "---".join(MEMBER % number for number in range(3))
    apply(kubectl, tmp_path, nodes=f"{NODE % 'n1'}---{NODE % 'n2'}", gang=f"{GROUP}---{members}")
    assert until(lambda: "1/3 tasks in gang unschedulable" in kubectl("describe", GROUPS, "gang"))
    assert until(lambda: "0/2 nodes are available: 2 Insufficient cpu." in events(kubectl, GROUPS, "gang"))
    condition = status(kubectl, GROUPS, "gang")["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("Unschedulable", "NotEnoughResources")
    apply(kubectl, tmp_path, plain=PLAIN)
    assert until(lambda: places(kubectl)["plain"])
    assert {node for name, node in places(kubectl).items() if name != "plain"} == {""}
    messages = 'jsonpath={.items[*].status.conditions[?(@.type=="PodScheduled")].message}'
    assert until(lambda: "once minAvailable is satisfied" in kubectl("get", "pods", "-o", messages))

    apply(kubectl, tmp_path, more=NODE % "n3")
    kubectl("wait", "--for=condition=PodScheduled", *(f"pod/gang-{n}" for n in range(3)), "--timeout=40s")
    assert {places(kubectl)[f"gang-{n}"] for n in range(3)} == {"n1", "n2", "n3"}
    assert until(lambda: status(kubectl, GROUPS, "gang")["phase"] == "Running")
    assert "pod/gang-" in kubectl("drain", "n3", "--force", "--ignore-daemonsets")
    assert len([name for name in places(kubectl) if name.startswith("gang-")]) == 2


def events(kubectl: Kubectl, *subject: str) -> str:
    """Return what a description says about events."""
    return kubectl("describe", *subject).partition("\nEvents:")[2]
