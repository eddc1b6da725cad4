"""Calls that the plugins by zones and by load add to a scheduling cycle on 5,000 nodes.

They are counted, so they repeat on any machine: calls of Python and C functions in the cycle of a pod, less those of
the same cycle without the plugin.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from cProfile import Profile
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from kframework_numa.testing import guaranteed_pod, report

from benchmarks.counts import count_calls
from benchmarks.shadow import MeasuredEngine
from benchmarks.timing import show
from kframework.config.load import parse
from kframework.objects import ApiObject, Pod
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node

NODES = 5_000

#: The pods that are like the one before; the median of their calls is shown.
ALIKE = 21

#: The Args of each plugin, where they are not the default; `load` is the file of measurements.
PLUGINS: Mapping[str, Mapping[str, object]] = {
    "NodeResourceTopologyMatch": {"cacheResyncPeriodSeconds": 5},
    "TargetLoadPacking": {"metricProvider": {"type": "File", "address": "{load}"}},
    "LoadVariationRiskBalancing": {"metricProvider": {"type": "File", "address": "{load}"}},
    "LowRiskOverCommitment": {"metricProvider": {"type": "File", "address": "{load}"}},
}


def count_cycles(plugin: str, folder: Path, nodes: int = NODES) -> tuple[float, float]:
    """Count the calls in the cycle of a pod unlike those before, and of one like the pod before; "" is no plugin."""
    load = folder / "load.json"
    load.write_text(json.dumps(_loads(nodes)))
    simulation = Simulation(
        _objects(nodes), parse(_configuration(plugin, load)), engine=MeasuredEngine.from_configuration
    )
    MeasuredEngine.cycles = MeasuredEngine.shadow = nullcontext()
    simulation.run(1)
    first, *alike = (_count(simulation, pod) for pod in _pods())
    return first, median(alike)


def _count(simulation: Simulation[MeasuredEngine], pod: Pod) -> int:
    MeasuredEngine.cycles = calls = Profile()
    simulation.create(pod)
    simulation.run(0.001)
    return count_calls(calls)


def _pods() -> Iterator[Pod]:
    return (guaranteed_pod(f"p{number}", {"cpu": 2}) for number in range(1 + ALIKE))


def _objects(nodes: int) -> Sequence[ApiObject]:
    names = [f"n{number}" for number in range(nodes)]
    zones: list[dict[str, str | int | float]] = [{"cpu": 8, "memory": "64Gi"}] * 4
    return [
        *(make_node(name, cpu=32, memory="256Gi") for name in names),
        *(report(name, *zones, fingerprint="pfp0v001ef46db3751d8e999") for name in names),
    ]


def _loads(nodes: int) -> dict[str, object]:
    shares = {f"n{number}": 10 + number % 60 for number in range(nodes)}
    measured = {
        name: {
            "metrics": [
                {"type": kind, "operator": operator, "value": value}
                for kind in ("CPU", "Memory")
                for operator, value in (("AVG", share), ("STD", 5))
            ]
        }
        for name, share in shares.items()
    }
    return {"window": {"start": 4102444800, "end": 4102445700}, "data": {"NodeMetricsMap": measured}}


def _configuration(plugin: str, load: Path) -> str:
    args = json.dumps(PLUGINS.get(plugin, {})).replace("{load}", str(load))
    enabled = f"{{name: {plugin}}}" if plugin else ""
    configured = f"{{name: {plugin}, args: {args}}}" if plugin else ""
    return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{multiPoint: {{enabled: [{enabled}]}}}}
  pluginConfig: [{configured}]
"""


def main() -> None:
    """Print the table."""
    with TemporaryDirectory() as folder:
        base = count_cycles("", Path(folder))
        rows = [("default profile", *(f"{calls:,.0f}" for calls in base))]
        for plugin in PLUGINS:
            counted = count_cycles(plugin, Path(folder))
            rows.append((plugin, *(f"+{calls - without:,.0f}" for calls, without in zip(counted, base, strict=True))))
    show(("CALLS IN A CYCLE", "NEW KIND OF POD", "NEXT OF THE KIND"), rows)


if __name__ == "__main__":
    main()
