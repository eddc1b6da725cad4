"""Commands as a user starts them, each in a process of its own, on 4-CPU nodes and with pods of one template."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from urllib.request import urlopen

_KIB, _MB = 1024, 1e6

#: How long the next binding is waited for, in seconds.
_PATIENCE = 60.0

#: Without the limit on requests that kube-scheduler has by default.
_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
leaderElection: {leaderElect: false}
"""


@dataclass(frozen=True)
class SimulationCost:
    """What `kframework simulate` used from its start to its exit: processor time, and the most memory that it had."""

    seconds: float
    mb: float


@dataclass(frozen=True)
class Run:
    """How long after its start `kframework run` bound a pod, by the wall clock, and its memory when all were bound."""

    first_binding: float
    mb: float


def simulate(nodes: int, pods: int) -> SimulationCost:
    """Simulate a cluster of this size."""
    with cluster_file(nodes, pods) as cluster:
        command = _kframework("simulate", "-f", cluster)
        process = subprocess.Popen(command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"kframework simulate ended with code {process.returncode}")
    return SimulationCost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _KIB / _MB)


def run(nodes: int, pods: int) -> Run:
    """Schedule the pods of a fake API, which serves a cluster of this size from another process."""
    with cluster_file(nodes, pods) as cluster:
        kubeconfig, config = cluster.with_name("kubeconfig"), cluster.with_name("config.yaml")
        config.write_text(_CONFIG)
        with _start_command("fake-api", "-f", cluster, "--write-kubeconfig", kubeconfig) as api:
            _wait_until_serving(api)
            bindings = _bindings(kubeconfig)
            next(bindings)
            began = perf_counter()
            with _start_command(
                "run", "--config", config, "--kubeconfig", kubeconfig, "--secure-port", _port()
            ) as scheduler:
                next(bindings)
                first = perf_counter() - began
                for _ in range(pods - 1):
                    next(bindings)
                return Run(first, _resident_memory(scheduler.pid) / _MB)


def first_answer() -> float:
    """Measure how long after its start `kframework fake-api` answers, in seconds by the wall clock."""
    port = _port()
    began = perf_counter()
    with _start_command("fake-api", "--port", port) as api:
        _wait_until_serving(api)
        with urlopen(f"http://127.0.0.1:{port}/api/v1/namespaces", timeout=_PATIENCE) as answer:
            answer.read()
        return perf_counter() - began


def _kframework(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kframework", *map(str, arguments)]


def _environment() -> dict[str, str]:
    """Return the environment of a command whose modules stay compiled after its first start, as installed ones are."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def cluster_file(nodes: int, pods: int) -> Iterator[Path]:
    """Write a cluster of this size to a file, as `kubectl get -o json` does, in a folder of its own."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
        items = [*map(_node, range(nodes)), *map(_pod, range(pods))]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        yield file


def _node(number: int) -> dict[str, object]:
    name, room = f"node-{number}", {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 10}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


def _pod(number: int) -> dict[str, object]:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }


@contextmanager
def _start_command(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        _kframework(*arguments), env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_until_serving(api: subprocess.Popen[bytes]) -> None:
    assert api.stdout is not None
    if not any(b"KUBECONFIG" in line for line in api.stdout):
        raise RuntimeError(f"kframework fake-api ended with code {api.wait()} before it served")


def _bindings(kubeconfig: Path) -> Iterator[None]:
    """Yield when pods on nodes are being watched for, and then once for each pod that gets one."""
    (server,) = re.findall(r"server: \"?([^\"\s]+)", kubeconfig.read_text())
    with urlopen(f"{server}/api/v1/pods?watch=1&fieldSelector=spec.nodeName!%3D", timeout=_PATIENCE) as lines:
        yield
        for line in lines:
            if line.startswith(b'{"type":"ADDED"'):
                yield


def _port() -> int:
    """Return a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _resident_memory(pid: int) -> int:
    """Return the bytes of memory that a process has."""
    _, pages, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
