"""What a recording costs: processor time per decision, at which 1,000 decisions a second take so much of a core.

Run with `python -m benchmarks.recording`. The same simulation runs with a recording and without one, in turn; the
difference, the writing thread included, is what the recording costs. Per pod the scheduler learns of it, decides,
binds, and sees it bound and running; nodes report as kubelets do.
"""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from time import process_time

from benchmarks.timing import show
from kframework.core.cycle.records import Observer
from kframework.core.pod_engine import PodEngine
from kframework.objects import (
    Container,
    ContainerPort,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    Resources,
    Toleration,
    Volume,
)
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.scheduler import EngineFactory
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node

NODES, PODS, ROUNDS = 500, 4_000, 4


def _pod(number: int) -> Pod:
    """Make a pod as a ReplicaSet makes them: two containers, owner, tolerations, a token."""
    app = f"app-{number % 50}"
    containers = tuple(
        Container(
            name=name,
            image=f"registry.example/team/{name}:v1.2.3",
            ports=(ContainerPort(container_port=8080, protocol="TCP"),),
            resources=Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "256Mi"}),
        )
        for name in ("main", "sidecar")
    )
    lasting = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    tolerations = tuple(
        Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300) for key in lasting
    )
    return Pod(
        metadata=ObjectMeta(
            name=f"{app}-6d4cf56db6-{number:05}",
            namespace="shop",
            labels={
                "app.kubernetes.io/name": app,
                "app.kubernetes.io/part-of": "shop",
                "pod-template-hash": "6d4cf56db6",
            },
            annotations={"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            owner_references=(
                OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=app, uid=f"uid-{app}", controller=True),
            ),
        ),
        spec=PodSpec(containers=containers, tolerations=tolerations, volumes=(Volume(name="token"),)),
    )


def _cost(engine: EngineFactory, observers: list[Observer]) -> tuple[float, int]:
    """Return the microseconds of processor time per decision, and the number of decisions."""
    objects: list[Node | Pod] = [
        make_node(f"node-{n}", zone="abc"[n % 3], cpu=32, memory="128Gi") for n in range(NODES)
    ]
    objects += map(_pod, range(PODS))
    gc.collect()
    began = process_time()
    decisions = len(Simulation(objects, engine=engine, observers=observers).run().decisions)
    return (process_time() - began) / decisions * 1e6, decisions


def _recording_cost(file: Path) -> tuple[float, float, float]:
    """Return the cost with a recording, the same with its end, and its bytes per decision."""
    recorder = Recorder(file)
    cost, decisions = _cost(recording_pod_engine_factory(recorder), [recorder])
    ending = process_time()
    recorder.close()
    return cost, cost + (process_time() - ending) / decisions * 1e6, file.stat().st_size / decisions


def main() -> None:
    """Print what a recording costs."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (_cost(PodEngine.from_configuration, [])[0], _recording_cost(Path(folder, f"{round}.jsonl.gz")))
            for round in range(ROUNDS)
        ]
    without = min(pair[0] for pair in pairs)
    recorded = min(pair[1][1] for pair in pairs)
    size = pairs[0][1][2]
    share = (recorded - without) * 1e-6 * 1_000
    show(
        ("", "measured", "budget"),
        [
            ("a decision, not recorded (µs)", without, None),
            ("a decision, recorded (µs)", recorded, None),
            ("of a core at 1,000 decisions/s (%)", share * 100, 10),
            ("written per decision (bytes)", size, None),
        ],
    )


if __name__ == "__main__":
    main()
