"""Write a trace for `kframework batch compare`: an hour of three teams that share twelve nodes with four GPUs each.

    python contrib_plugins/kframework-batch/examples/teams.py > teams.yaml

Research comes with gangs of twelve, the product with gangs of four; students have jobs of sixteen that are content with
one. A number behind the command thins the trace out: with 4 a fourth as many jobs come. Gangs carry the labels of the
example plugin `together`, so that the pod engine knows them as well as sessions do.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from random import Random

#: Queue, weight, pods of a job, how many of them at least, and seconds between jobs on average.
TEAMS = [("research", 3, 12, 12, 180), ("product", 2, 4, 4, 100), ("students", 1, 16, 1, 300)]
BATCH, SCHEDULING = "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1"


def objects(thinned: float, random: Random) -> Iterator[dict[str, object]]:
    """Yield nodes, queues and jobs."""
    has = {"cpu": 32, "memory": "256Gi", "nvidia.com/gpu": 4, "pods": 110}
    for number in range(12):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"gpu-{number}"},
            "status": {"allocatable": has},
        }
    for queue, weight, pods, least, apart in TEAMS:
        yield {"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": queue}, "spec": {"weight": weight}}
        moment = random.expovariate(1 / apart)
        while moment < 3600 / thinned:
            yield job(f"{queue}-{moment:.0f}", queue, pods, least, round(thinned * moment), random.randint(240, 720))
            moment += random.expovariate(1 / apart) + 1


def job(name: str, queue: str, pods: int, least: int, arrives: int, runs: int) -> dict[str, object]:
    """Make a job of workers with a GPU each."""
    gang = {"together.example.com/group": name, "together.example.com/size": str(least)} if least > 1 else {}
    resources = {"requests": {"cpu": 4, "memory": "16Gi", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}
    container = {"name": "train", "image": "example.com/train", "resources": resources}
    template = {
        "metadata": {"annotations": {"kframework.dev/run-seconds": str(runs)}, "labels": gang},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]},
    }
    tasks = [{"name": "worker", "replicas": pods, "minAvailable": least, "template": template}]
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"kframework.dev/arrives-seconds": str(arrives)}},
        "spec": {"schedulerName": "volcano", "queue": queue, "minAvailable": least, "tasks": tasks},
    }


if __name__ == "__main__":
    thinned = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    json.dump({"apiVersion": "v1", "kind": "List", "items": list(objects(thinned, Random(0)))}, sys.stdout)
