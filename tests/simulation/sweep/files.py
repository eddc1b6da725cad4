"""A small sweep in files: its results depend on configuration, cluster and seed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_NODES = "\n".join(
    f"- {{metadata: {{name: node-{index}}}, status: {{capacity: {{cpu: '4', memory: 8Gi, pods: '110'}}}}}}"
    for index in range(4)
)
_POD = (
    "- metadata: {{name: pod-{index}, annotations: {{kframework.dev/arrives-seconds: '{at}',"
    " kframework.dev/run-seconds: '{run}'}}}}\n"
    "  spec: {{containers: [{{name: c, resources: {{requests: {{cpu: '{cpu}', memory: 1Gi}}}}}}]}}"
)

PACKING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""
SWEEP = """\
apiVersion: kframework.dev/v1
kind: Sweep
configurations: {default: null, packing: packing.yaml}
clusters:
  short: [nodes.yaml, short.yaml]
  long: [nodes.yaml, long.yaml]
seeds: [1, 2]
duration: 10m
"""


def write_sweep(folder: Path, text: str = SWEEP) -> Path:
    """Write a sweep and its files, and return its path."""
    (folder / "nodes.yaml").write_text(f"apiVersion: v1\nkind: NodeList\nitems:\n{_NODES}\n")
    for name, count in (("short", 12), ("long", 30)):
        pods = [
            _POD.format(index=index, at=7 * index, run=60 + 13 * index % 50, cpu=1 + index % 3)
            for index in range(count)
        ]
        (folder / f"{name}.yaml").write_text("apiVersion: v1\nkind: PodList\nitems:\n" + "\n".join(pods) + "\n")
    (folder / "packing.yaml").write_text(PACKING)
    file = folder / "sweep.yaml"
    file.write_text(text)
    return file


class SerialExecutor(Executor):
    """Executes at once, in this thread."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = Future[T]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
