"""How much of a service one zone or node takes down: the numbers of kframework-selector-spread.

Run with `python -m benchmarks.selector_spread --svg contrib_plugins/kframework-selector-spread/result.svg`.
The real scheduler runs on virtual time, under one profile after the other. The same seed brings the same cluster.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

import msgspec
from kframework_selector_spread import SelectorSpread

from benchmarks.gpu_packing import draw_bars
from benchmarks.timing import show
from kframework.objects import Node, ObjectMeta, Pod, Service, ServiceSpec
from kframework.testing import Scenario, ScenarioResult, make_node, make_pod

ZONES, PER_ZONE, SERVICES = "abc", 8, 40
#: The load of a zone's nodes before the services come: the nodes of the last zone are new and empty.
LOAD = {"a": 0.6, "b": 0.5, "c": 0.0}
SEEDS = range(10)

_PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
"""
_WITHOUT = "      {point}:\n        disabled: [{{name: PodTopologySpread}}]\n"
_UNSPREAD = _PROFILE + "".join(_WITHOUT.format(point=point) for point in ("preScore", "score"))
PROFILES: Mapping[str, str] = {
    "No spreading": _UNSPREAD,
    "PodTopologySpread": _PROFILE + "      score: {}\n",
    "SelectorSpread": _UNSPREAD + "      multiPoint:\n        enabled: [{name: SelectorSpread, weight: 1}]\n",
}
_TITLE = "Pods of a service that are lost with its fullest zone"


class Losses(msgspec.Struct, frozen=True):
    """The share of a service that is lost with its fullest zone, and with its fullest node: the means of a run."""

    zone: float
    node: float


def make_nodes() -> list[Node]:
    """Make the nodes of all zones."""
    return [make_node(f"{zone}{index}", cpu=32, zone=zone) for zone in ZONES for index in range(PER_ZONE)]


def make_pods(seed: int) -> Iterator[Pod]:
    """Draw what runs already, and the replicas of the services, 3 to 12 each."""
    random = Random(seed)
    for node in make_nodes():
        used = 32 * LOAD[node.metadata.name[0]] * random.uniform(0.8, 1.2)
        if used:
            yield make_pod(f"old-{node.metadata.name}", cpu=f"{used:.0f}", node_name=node.metadata.name)
    for number in range(SERVICES):
        cpu = f"{random.randint(2, 8) * 100}m"
        for replica in range(random.randint(3, 12)):
            yield make_pod(f"service-{number}-{replica}", cpu=cpu, labels={"app": f"service-{number}"})


def run_profile(profile: str, seed: int) -> Losses:
    """Schedule the services under a profile."""
    services = [
        Service(
            metadata=ObjectMeta(name=f"service-{number}", namespace="default"),
            spec=ServiceSpec(selector={"app": f"service-{number}"}),
        )
        for number in range(SERVICES)
    ]
    pods = list(make_pods(seed))
    world = Scenario(
        nodes=make_nodes(), pods=pods, objects=services, plugins=[SelectorSpread], config=PROFILES[profile]
    )
    return _losses(world.run())


def _losses(result: ScenarioResult) -> Losses:
    nodes: dict[str, list[str]] = {}
    for pod in result.cluster.objects(Pod):
        if "app" in pod.metadata.labels:
            nodes.setdefault(pod.metadata.labels["app"], []).append(pod.spec.node_name)
    return Losses(
        zone=fmean(_largest_share([name[:1] for name in each]) for each in nodes.values()),
        node=fmean(_largest_share(each) for each in nodes.values()),
    )


def _largest_share(domains: Sequence[str]) -> float:
    return max(Counter(domains).values()) / len(domains)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table; with `--svg FILE` draw the picture too."""
    results = {name: [run_profile(name, seed) for seed in SEEDS] for name in PROFILES}
    rows = [
        (name, *(f"{fmean(shares):.0%}" for shares in ([run.zone for run in runs], [run.node for run in runs])))
        for name, runs in results.items()
    ]
    show(("SCORED BY", "LOST WITH THE FULLEST ZONE", "WITH THE FULLEST NODE"), rows)
    if list(arguments[:1]) == ["--svg"]:
        zones = {name: [run.zone for run in runs] for name, runs in results.items()}
        Path(arguments[1]).write_text(draw_bars(_TITLE, zones))


if __name__ == "__main__":
    main(sys.argv[1:])
