"""How busy nodes are if pods are placed by requests alone, and by the plugins of kframework-load-aware.

Run with `python -m benchmarks.measured_loads --svg contrib_plugins/kframework-load-aware/result.svg`.
The real scheduler runs on virtual time. The same pods come in all cases; what they use is not what they request.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from typing import NamedTuple

from kframework_load_aware import LoadVariationRiskBalancing, TargetLoadPacking
from kframework_load_aware.providers import NodeLoad

from benchmarks.time_panels import LEFT, TOP, WIDTH, TimePanels
from benchmarks.timing import show
from kframework.clock import seconds_of
from kframework.engine import MemoryCluster
from kframework.objects import Pod
from kframework.testing import RUN_SECONDS, Scenario, make_container, make_node, make_pod

NODES, CPUS = 10, 16
#: The length of the simulation, when it is first looked at, and the distance of two samples, in seconds.
LENGTH, WARM_UP, INTERVAL = 5 * 3600, 3600, 60
#: How many samples a measurement covers.
WINDOW = 15
#: The share of its cpu in use above which a node is too busy, so that its pods are slow.
TOO_BUSY = 0.9
#: When virtual time begins.
BEGIN = seconds_of("2026-01-01T00:00:00Z")

#: What pods of each kind request, use on average and may use at most, in cpus.
KINDS = {"frugal": (2.0, 0.5, 2.0), "greedy": (0.5, 2.0, 3.0)}


class Arrival(NamedTuple):
    """A pod that comes at some second, and the cpus that it uses on average."""

    seconds: int
    pod: Pod
    uses: float


def make_arrivals(seed: int) -> list[Arrival]:
    """Draw the pods: up to four of a kind come each minute, and run for half an hour on average."""
    random = Random(seed)
    arrivals: list[Arrival] = []
    second = 0
    while second < LENGTH:
        number, kind = random.randint(1, 4), random.choice(list(KINDS))
        request, uses, limit = KINDS[kind]
        for _ in range(number):
            run = str(random.randint(15, 45) * 60)
            container = make_container(cpu=request, memory="256Mi", limits={"cpu": limit})
            pod = make_pod(f"{kind}-{len(arrivals)}", containers=[container], annotations={RUN_SECONDS: run})
            arrivals.append(Arrival(second, pod, uses * random.uniform(0.5, 1.5)))
        second += INTERVAL
    return arrivals


class Course:
    """The course of one case: the share of each node's cpu that is in use, sample by sample."""

    def __init__(self, arrivals: Sequence[Arrival], seed: int = 0) -> None:
        self._arrivals = arrivals
        self._uses = {arrival.pod.metadata.name: arrival.uses for arrival in arrivals}
        self._random = Random(seed)
        self.busy: dict[str, list[float]] = {f"n{number}": [] for number in range(NODES)}

    def look(self, second: int, cluster: MemoryCluster) -> Mapping[str, NodeLoad]:
        """Let pods come, and return what is measured of the nodes at this second."""
        used = dict.fromkeys(self.busy, 0.0)
        for pod in cluster.objects(Pod):
            if pod.status.phase == "Running":
                used[pod.spec.node_name] += self._uses[pod.metadata.name] * self._random.uniform(0.7, 1.3)
        for name, cpus in used.items():
            self.busy[name].append(cpus / CPUS)
        for arrival in self._arrivals:
            if arrival.seconds == second:
                cluster.add(arrival.pod)
        return {name: _measure(BEGIN + second, busy[-WINDOW:]) for name, busy in self.busy.items()}

    @property
    def settled(self) -> Sequence[float]:
        """What was in use on all nodes in all samples after the warm-up."""
        return [share for busy in self.busy.values() for share in busy[WARM_UP // INTERVAL :]]

    @property
    def too_busy(self) -> float:
        """The share of the time for which a node was too busy."""
        return fmean(share > TOO_BUSY for share in self.settled)

    @property
    def used_nodes(self) -> float:
        """The number of nodes that were in use for more than a tenth, on average."""
        return fmean(share > 0.1 for share in self.settled) * NODES


def _measure(at: float, busy: Sequence[float]) -> NodeLoad:
    return NodeLoad(at, 100 * min(fmean(busy), 1), 100 * min(pstdev(busy), 1), window=INTERVAL * len(busy))


def run_case(
    arrivals: Sequence[Arrival], plugin: type[LoadVariationRiskBalancing | TargetLoadPacking] | None
) -> Course:
    """Run the arrivals with the default plugins, or with this one in place of NodeResourcesFit's scores."""
    course = Course(arrivals)
    added = "" if plugin is None else f", enabled: [{{name: {plugin.name}, weight: 5}}]"
    disabled = "" if plugin is None else "{name: NodeResourcesFit}, {name: NodeResourcesBalancedAllocation}"
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{score: {{disabled: [{disabled}]{added}}}}}
  pluginConfig: [{{name: TargetLoadPacking, args: {{targetUtilization: 70}}}}]
"""
    nodes = [make_node(name, cpu=CPUS, memory="64Gi") for name in course.busy]
    scenario = Scenario(nodes=nodes, plugins=[] if plugin is None else [plugin], config=config)
    script = scenario.source(plugin.name, "load") if plugin is not None else None

    def sample(second: int, cluster: MemoryCluster) -> None:
        measured = course.look(second, cluster)
        if script is not None:
            script.publish(measured)(cluster)

    for second in range(0, LENGTH, INTERVAL):
        scenario.at(second, partial(sample, second))
    scenario.run(until=LENGTH)
    return course


CASES = {
    "By requests": None,
    "LoadVariationRiskBalancing": LoadVariationRiskBalancing,
    "TargetLoadPacking": TargetLoadPacking,
}

_PANELS = TimePanels(WARM_UP, LENGTH, hours=1, most=1.5, marks={f"{100 * at:.0f}": at for at in (0, 0.5, TOO_BUSY)})


def band_chart(courses: Mapping[str, Course]) -> str:
    """Draw a line for each node over time, a panel for each case; what is above the limit of a busy node is red."""
    panels = {name: list(_lines(f"busy-{number}", course)) for number, (name, course) in enumerate(courses.items())}
    return _PANELS.draw("CPU in use of ten nodes, in percent", panels)


def _lines(busy_area: str, course: Course) -> Iterator[str]:
    samples = [busy[WARM_UP // INTERVAL :: 5] for busy in course.busy.values()]
    lines = "".join(f"M{'L'.join(_PANELS.positions(shares))}" for shares in samples)
    area = f'<rect x="{LEFT}" y="{TOP}" width="{WIDTH}" height="{_PANELS.y(TOO_BUSY) - TOP}"/>'
    yield f'<clipPath id="{busy_area}">{area}</clipPath>'
    yield f'<path d="{lines}" fill="none" stroke="#0072b2" stroke-width="0.8"/>'
    yield f'<path d="{lines}" fill="none" stroke="#d55e00" stroke-width="1.6" clip-path="url(#{busy_area})"/>'


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table; with `--svg FILE` draw the picture too."""
    arrivals = make_arrivals(seed=0)
    courses = {name: run_case(arrivals, plugin) for name, plugin in CASES.items()}
    rows = [
        (
            name,
            f"{fmean(course.settled):.0%}",
            f"{course.too_busy:.1%}",
            f"{max(course.settled):.0%}",
            f"{course.used_nodes:.1f}",
        )
        for name, course in courses.items()
    ]
    show(("CASE", "CPU USED", "TOO BUSY", "BUSIEST", "NODES IN USE"), rows)
    if list(arguments[:1]) == ["--svg"]:
        Path(arguments[1]).write_text(band_chart(courses))


if __name__ == "__main__":
    main(sys.argv[1:])
