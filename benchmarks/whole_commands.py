"""Commands as a user starts them, each in a process of its own, on 4-CPU nodes and with pods of one template."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import log
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from urllib.request import urlopen

from kframework.simulation.cluster_traces.cluster import Period, TraceNode, TracePod, create_objects

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
        return _simulate(cluster)


def simulate_trace(nodes: int, pods: int) -> SimulationCost:
    """Simulate the hour of a trace of this size."""
    with trace_file(nodes, pods) as cluster:
        return _simulate(cluster, "--duration", "1h")


def _simulate(cluster: Path, *options: str) -> SimulationCost:
    command = _kframework("simulate", "-f", cluster, *options)
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
    with _list_file([*map(_node, range(nodes)), *map(_pod, range(pods))]) as file:
        yield file


@contextmanager
def _list_file(items: Sequence[object]) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "cluster.json"
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


#: The GPUs of the nodes of a trace, and how many nodes in a hundred have them.
_GPUS = {8: 47, 2: 35, 0: 18}
#: What pods of a trace request: thousandths of a core, MiB and thousandths of GPUs, and how many in a hundred do.
_REQUESTS = {
    (3_000, 6_000, 800): 22,
    (11_000, 48_000, 1_000): 32,
    (12_000, 47_000, 500): 20,
    (8_000, 30_000, 250): 8,
    (12_000, 56_000, 0): 12,
    (32_000, 48_000, 0): 5,
    (88_000, 320_000, 8_000): 1,
}
#: The median of their run times in seconds, and the deviation of its logarithm.
_MEDIAN, _DEVIATION = 600.0, 1.9


@contextmanager
def trace_file(nodes: int, pods: int) -> Iterator[Path]:
    """Write a trace of an hour to a file: sizes and run times are much as in Alibaba's trace of 2023."""
    random = Random(1)
    gpus = random.choices([*_GPUS], [*_GPUS.values()], k=nodes)
    records: list[TraceNode | TracePod] = [
        TraceNode(f"node-{number}", "96", "512Gi", count) for number, count in enumerate(gpus)
    ]
    requests = random.choices([*_REQUESTS], [*_REQUESTS.values()], k=pods)
    for number, (cpu, memory, gpu_milli) in enumerate(requests):
        arrival = random.uniform(0.0, 3600.0)
        end = arrival + random.lognormvariate(log(_MEDIAN), _DEVIATION)
        records.append(TracePod(f"pod-{number}", f"{cpu}m", f"{memory}Mi", arrival, arrival, end, gpu_milli))
    with _list_file([*create_objects(records, Period())]) as file:
        yield file


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
