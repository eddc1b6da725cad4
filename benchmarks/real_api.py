"""kframework beside kube-scheduler on a real API server: pods are created first, then one scheduler binds them all.

Run with `python -m benchmarks.real_api`, and KUBE_ASSETS naming a folder with kube-apiserver, etcd and kube-scheduler.
Each scheduler gets a server of its own, the same configuration, and all cores, which it shares with the server and with
who watches. The rate is from the first binding to the last, as a watch shows them; processor time is all that it used.
Before that, both schedule through a proxy that refuses, loses and delays their requests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from benchmarks.faulty_proxy import faulty_proxy
from benchmarks.faulty_server import TROUBLES
from benchmarks.timing import show
from kframework.client.transport import JSON
from tests.end_to_end.api import Api, Json
from tests.end_to_end.servers import started
from tests.support.faulty_transport import Rates

NODES = 5_000
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"

#: How many pods are created at a server in trouble, how many a second, and for how long events may be missing.
PODS_IN_TROUBLE, PODS_PER_SECOND, SECONDS_FOR_EVENTS = 500, 100, 15.0

_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: 5000, burst: 5000, contentType: "{content_type}"}}
leaderElection: {{leaderElect: false}}
"""

#: kube-scheduler's default. The proxy reads lines, so both use JSON there.
_PROTOBUF = "application/vnd.kubernetes.protobuf"

_APP = {"app": "web"}
_SELECTOR = {"labelSelector": {"matchLabels": _APP}}


@dataclass(frozen=True)
class PodLoad:
    """The number of pods to bind and of those that exist already; `spec` is the rest of their spec."""

    title: str
    pods: int
    standing: int
    spec: Mapping[str, object]


WORKS = (
    PodLoad("plain", 5_000, 0, {}),
    PodLoad(
        "spread by zone",
        1_500,
        5_000,
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule",
                    **_SELECTOR,
                }
            ]
        },
    ),
    PodLoad(
        "required anti-affinity by host",
        1_500,
        5_000,
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", **_SELECTOR}
                    ]
                }
            }
        },
    ),
)


@dataclass(frozen=True)
class DrainResult:
    """How fast the pods were bound, how long after its start the first was, and what the scheduler used."""

    pods_per_second: float
    first_binding: float
    cpu: float
    mb: float


def schedulers(assets: str) -> dict[str, Sequence[str]]:
    """Return the commands that start each, without the file of the configuration."""
    return {
        "kube-scheduler": [str(Path(assets, "kube-scheduler")), "--secure-port=0", "--config"],
        "kframework": [sys.executable, "-m", "kframework", "run", "--secure-port=0", "--config"],
    }


def drain(kind: str, command: Sequence[str], work: PodLoad, nodes: int) -> DrainResult:
    """Let a scheduler bind the pods of a server, "real" or "fake"."""
    with TemporaryDirectory() as folder, started(kind, Path(folder)) as server:
        api, config = Api(server.kubeconfig), Path(folder, "config.yaml")
        config.write_text(_CONFIG.format(kubeconfig=server.kubeconfig, content_type=_PROTOBUF))
        api.create("/api/v1/nodes", *(_node(number) for number in range(nodes)))
        api.create(PODS, *(_pod(f"standing-{n}", {}, {"nodeName": f"node-{n % nodes}"}) for n in range(work.standing)))
        api.create(PODS, *(_pod(f"pod-{number}", _APP, work.spec) for number in range(work.pods)))
        # Standing pods are seen first; on a server with kubelets each pod is seen again when it runs.
        with api.follow(PODS, "spec.nodeName!=") as placed:
            placed.until(_have_scheduled(work.standing))
            began = perf_counter()
            scheduler = subprocess.Popen([*command, str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                placed.until(_have_scheduled(work.standing + 1))
                first = perf_counter()
                for share in range(1, 101):
                    placed.until(_have_scheduled(work.standing + work.pods * share // 100))
                last = perf_counter()
            finally:
                scheduler.terminate()
                _, status, usage = os.wait4(scheduler.pid, 0)
                scheduler.returncode = os.waitstatus_to_exitcode(status)
    cpu, mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
    return DrainResult(work.pods / (last - first), first - began, cpu, mb)


@dataclass(frozen=True)
class TroubleResult:
    """How long after the last pod was created all were bound, in seconds, and how many have no Scheduled event."""

    seconds: float
    lost_events: int


def drain_in_trouble(kind: str, command: Sequence[str], rates: Rates, pods: int = PODS_IN_TROUBLE) -> TroubleResult:
    """Create pods in even intervals on a server, "real" or "fake", whose scheduler has to do with such faults."""
    with TemporaryDirectory() as folder, started(kind, Path(folder)) as server:
        api, config, kubeconfig = Api(server.kubeconfig), Path(folder, "config.yaml"), Path(folder, "faulty.kubeconfig")
        config.write_text(_CONFIG.format(kubeconfig=kubeconfig, content_type=JSON))
        api.create("/api/v1/nodes", *map(_node, range(pods // 10)))
        api.create(PODS, _pod("first", _APP, {}))
        with (
            faulty_proxy(server.kubeconfig, kubeconfig, rates),
            api.follow(PODS, "spec.nodeName!=") as placed,
            subprocess.Popen(
                [*command, str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as scheduler,
        ):
            try:
                placed.until(_have_scheduled(1))
                began = perf_counter()
                for number in range(pods):
                    api.create(PODS, _pod(f"pod-{number}", _APP, {}))
                    sleep(max(0.0, began + (number + 1) / PODS_PER_SECOND - perf_counter()))
                created = perf_counter()
                placed.until(_have_scheduled(1 + pods))
                return TroubleResult(perf_counter() - created, _count_lost_events(api, 1 + pods))
            finally:
                scheduler.terminate()


def _count_lost_events(api: Api, pods: int) -> int:
    """Return how many pods have no Scheduled event, after a while at the latest."""
    end = perf_counter() + SECONDS_FOR_EVENTS
    while True:
        events = {each["regarding"]["name"] for each in api.items(EVENTS) if each["reason"] == "Scheduled"}
        if len(events) == pods or perf_counter() > end:
            return pods - len(events)
        sleep(0.5)


def _have_scheduled(number: int) -> Callable[[list[Json]], bool]:
    """Return a function that says if all pods have been seen on a node; it reads each version once."""
    seen: set[str] = set()
    read = 0

    def enough(versions: list[Json]) -> bool:
        nonlocal read
        seen.update(each["metadata"]["name"] for each in versions[read:])
        read = len(versions)
        return len(seen) >= number

    return enough


def _node(number: int) -> Json:
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 10}"}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": f"node-{number}", "labels": labels}, "status": status}


def _pod(name: str, labels: Mapping[str, str], spec: Mapping[str, object]) -> Json:
    requests = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": requests}
    return {"metadata": {"name": name, "labels": dict(labels)}, "spec": {"containers": [container], **spec}}


def _trouble_rows(assets: str) -> Iterator[tuple[str, str, float, int]]:
    for trouble in TROUBLES:
        for name, command in schedulers(assets).items():
            done = drain_in_trouble("real", command, trouble.rates)
            yield trouble.name, name, done.seconds, done.lost_events


def main() -> None:
    """Print a row for each work and scheduler."""
    assets = os.environ.get("KUBE_ASSETS")
    if assets is None:
        print("KUBE_ASSETS names no folder with kube-apiserver, etcd and kube-scheduler")
        return
    show(("trouble", "scheduler", "seconds", "events lost"), [*_trouble_rows(assets)])
    rows = []
    for work in WORKS:
        for name, command in schedulers(assets).items():
            done = drain("real", command, work, NODES)
            figures = (done.pods_per_second, done.first_binding, done.cpu, done.mb)
            rows.append((f"{work.pods:,} {work.title}, {work.standing:,} standing", name, *figures))
    show(("work", "scheduler", "pods/s", "first, s", "CPU, s", "MB"), rows)


if __name__ == "__main__":
    main()
