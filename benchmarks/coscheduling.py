"""How much of a crowded cluster works when jobs are gangs: the numbers of kframework-coscheduling.

Run with `python -m benchmarks.coscheduling --svg contrib_plugins/kframework-coscheduling/result.svg`.
The real scheduler runs on virtual time, with the plugin and without. The same seed brings the same gangs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from statistics import fmean

import msgspec
from kframework_coscheduling import Coscheduling, PodGroup, PodGroupSpec
from kframework_coscheduling.pod_groups import LABEL

from benchmarks.gpu_packing import draw_bars
from benchmarks.packing import STEP, options_of, run_seeds
from kframework.engine import MemoryCluster
from kframework.objects import ObjectMeta, Pod
from kframework.testing import Scenario, make_node, make_pod

#: The sizes of gangs, all equally frequent; each pod takes a node's slot.
SIZES = (2, 4, 8, 16)
PER_NODE = 4
#: The steps for which a gang works once it is whole.
WORK = 10
#: The demand, relative to the slots.
LOAD = 1.2

_PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
"""
PROFILES: Mapping[str, str] = {
    "Pod by pod": _PROFILE,
    "Coscheduling": _PROFILE
    + """\
    plugins:
      multiPoint:
        enabled:
          - name: Coscheduling
      queueSort:
        enabled:
          - name: Coscheduling
        disabled:
          - name: "*"
""",
}
_TITLE = "Slots that work, while gangs ask for 120 % of them"


class GangRun(msgspec.Struct, frozen=True):
    """The means of a run, as shares of all slots, and the number of gangs that have ended.

    `working` slots have pods of whole gangs, `held` ones those of gangs that are not whole.
    """

    working: float
    held: float
    ended: int

    @property
    def mix(self) -> float:
        """The share of slots that work."""
        return self.working


class GangCourse:
    """Gangs that come at random, work together once all their pods run, and end."""

    def __init__(self, nodes: int, seed: int) -> None:
        self._slots = nodes * PER_NODE
        self._random = Random(f"gangs {seed}")
        self._came = 0
        self._worked: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self.working: list[float] = []
        self.held: list[float] = []
        self.ended = 0

    def step(self, cluster: MemoryCluster) -> None:
        """Count, end the gangs that have worked long enough, and let new ones come."""
        running = dict.fromkeys(self._sizes, 0)
        for pod in cluster.objects(Pod):
            running[pod.metadata.labels[LABEL]] += bool(pod.spec.node_name)
        whole = {name for name, size in self._sizes.items() if running[name] == size}
        self.working.append(sum(running[name] for name in whole) / self._slots)
        self.held.append(sum(number for name, number in running.items() if name not in whole) / self._slots)
        for name in sorted(whole):
            self._worked[name] = self._worked.get(name, 0) + 1
            if self._worked[name] == WORK:
                self._end(cluster, name)
        rate = LOAD * self._slots / WORK / fmean(SIZES)
        for _ in range(sum(self._random.random() < rate / 8 for _ in range(8))):
            self._begin(cluster)

    def _begin(self, cluster: MemoryCluster) -> None:
        name, size = f"gang-{self._came}", self._random.choice(SIZES)
        self._came += 1
        self._sizes[name] = size
        metadata = ObjectMeta(name=name, namespace="default")
        cluster.add(PodGroup(metadata=metadata, spec=PodGroupSpec(min_member=size)))
        for index in range(size):
            cluster.add(make_pod(f"{name}-{index}", cpu=1, labels={LABEL: name}))

    def _end(self, cluster: MemoryCluster, name: str) -> None:
        for index in range(self._sizes.pop(name)):
            cluster.remove(Pod, f"{name}-{index}", "default")
        cluster.remove(PodGroup, name, "default")
        self.ended += 1


def run(profile: str, nodes: int, steps: int, seed: int) -> GangRun:
    """Let the gangs of one seed come and go under one profile."""
    course = GangCourse(nodes, seed)
    machines = [make_node(f"node-{index}", cpu=PER_NODE) for index in range(nodes)]
    scenario = Scenario(nodes=machines, plugins=[Coscheduling], config=PROFILES[profile])
    for position in range(steps):
        scenario.at(position * STEP, course.step)
    scenario.run(until=steps * STEP)
    return GangRun(working=fmean(course.working), held=fmean(course.held), ended=course.ended)


def table(results: Mapping[str, Sequence[GangRun]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| Scheduled | slots that work | lowest to highest | slots of gangs that are not whole | gangs that ended |"
    yield "|---|---:|---:|---:|---:|"
    for profile, runs in results.items():
        working = [each.working for each in runs]
        held, ended = fmean(each.held for each in runs), fmean(each.ended for each in runs)
        spread = f"{min(working):.0%} to {max(working):.0%}"
        yield f"| {profile} | **{fmean(working):.1%}** | {spread} | {held:.1%} | {ended:.0f} |"


def main(arguments: Sequence[str] = ()) -> None:
    """Run the simulation and print its table."""
    options = options_of(arguments, module="coscheduling", nodes=16, node="4 slots", pods=240)
    results = run_seeds(run, PROFILES, options)
    sys.stdout.write("\n".join(table(results)) + "\n")
    if options.svg is not None:
        rows = {profile: [each.working for each in runs] for profile, runs in results.items()}
        options.svg.write_text(draw_bars(_TITLE, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
