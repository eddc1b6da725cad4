"""How much GPU demand can still be placed when 90 % of the GPUs are taken: the numbers of kframework-gpu-packing.

Run with `python -m benchmarks.gpu_packing --svg contrib_plugins/kframework-gpu-packing/result.svg`.
The real scheduler runs on virtual time, under one profile after the other. The same seed brings the same pods.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from random import Random
from statistics import fmean, stdev

import msgspec
from kframework_gpu_packing import GpuPacking

from benchmarks.packing import (
    STEP,
    WARM_UP,
    Axis,
    comparisons,
    options_of,
    profiles_to_compare,
    run_seeds,
)
from kframework.engine import MemoryCluster
from kframework.objects import Node, Pod
from kframework.testing import Scenario, make_node, make_pod

GPU = "nvidia.com/gpu"
#: How frequent pods of so many GPUs are: each size makes up a quarter of the demand.
SIZES: Mapping[int, int] = {1: 8, 2: 4, 4: 2, 8: 1}
PER_NODE = 8
#: Pods come until so much of the GPUs is taken; then pods end until it is so much less.
FULL, EBB = 0.90, 0.85


def make_nodes(number: int) -> list[Node]:
    """Make the nodes of the cluster."""
    return [make_node(f"gpu-{index}", cpu=96, memory="768Gi", allocatable={GPU: PER_NODE}) for index in range(number)]


class PackingCourse:
    """What happens to the cluster, step by step; the scheduler has its say between two steps.

    In each step one pod arrives. The previous one, if it found no room, is rejected. Whenever the cluster is full, the
    free GPUs are counted node by node, and pods drawn at random end. The first `warm_up` pods fill the cluster and
    shuffle it; nothing is counted until they have come.
    """

    def __init__(self, nodes: int, seed: int, warm_up: int) -> None:
        self._gpus = nodes * PER_NODE
        self._coming = Random(f"pods that come {seed}")
        self._going = Random(f"pods that go {seed}")
        self._warm_up = warm_up
        self._latest: Pod | None = None
        self._running: list[Pod] = []
        self._taken: Counter[str] = Counter({node.metadata.name: 0 for node in make_nodes(nodes)})
        self._came = 0
        #: The free GPUs of each node, every time the cluster was full though not to the last GPU.
        self.counts: list[list[int]] = []
        #: The GPUs that pods asked for, and those of them whose pod was turned away.
        self.requested: int = 0
        self.turned_away: int = 0

    def step(self, cluster: MemoryCluster) -> None:
        """Let one pod come, after what follows from the one before."""
        if self._latest is not None:
            self._settle(cluster, self._latest)
        if self._taken.total() >= FULL * self._gpus:
            if self._counting and self._taken.total() < self._gpus:
                self.counts.append([PER_NODE - taken for taken in self._taken.values()])
            while self._taken.total() > EBB * self._gpus:
                pod = self._running.pop(self._going.randrange(len(self._running)))
                self._taken[pod.spec.node_name] -= gpus_of(pod)
                cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        self._came += 1
        self._latest = cluster.add(self._pod())

    @property
    def _counting(self) -> bool:
        return self._came > self._warm_up

    def _settle(self, cluster: MemoryCluster, pod: Pod) -> None:
        pod = cluster.read(Pod, pod.metadata.name, pod.metadata.namespace)
        placed = bool(pod.spec.node_name)
        if placed:
            self._running.append(pod)
            self._taken[pod.spec.node_name] += gpus_of(pod)
        else:
            cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        if self._counting:
            self.requested += gpus_of(pod)
            self.turned_away += 0 if placed else gpus_of(pod)

    def _pod(self) -> Pod:
        (gpus,) = self._coming.choices(list(SIZES), list(SIZES.values()))
        # At most 80 of 96 CPUs and 640 of 768 GiB for 8 GPUs, so that nothing but GPUs runs out.
        cpu, memory = gpus * self._coming.randint(2, 10), gpus * self._coming.randint(16, 80)
        return make_pod(f"pod-{self._came}", cpu=cpu, memory=f"{memory}Gi", requests={GPU: gpus})


def gpus_of(pod: Pod) -> int:
    """Return how many GPUs a pod of this workload asks for."""
    return int(pod.spec.containers[0].resources.requests[GPU])


_TITLE = "GPU demand that can still be placed when 90 % of the GPUs are taken"
_AXIS = Axis(left=150, top=50, width=440)
_ROW, _BAR = 44, 26


def bar_chart(shares: Mapping[str, Sequence[float]]) -> str:
    """Draw the chart of this study."""
    return draw_bars(_TITLE, shares)


def draw_bars(title: str, shares: Mapping[str, Sequence[float]]) -> str:
    """Draw the mean of each row of shares (0 to 1), and how far they range."""
    bars = [
        line
        for position, (name, row) in enumerate(shares.items())
        for line in _bar(name, row, _AXIS.top + _ROW * position + (_ROW - _BAR) // 2)
    ]
    return _AXIS.svg(title, _AXIS.top + _ROW * len(shares) + 30, bars)


def _bar(name: str, row: Sequence[float], top: int) -> Iterator[str]:
    left, middle = _AXIS.left, top + _BAR / 2
    mean, low, high = (_AXIS.across(share) for share in (fmean(row), min(row), max(row)))
    yield f'<text x="{left - 10}" y="{middle + 5}" text-anchor="end">{escape(name)}</text>'
    yield f'<rect x="{left}" y="{top}" width="{mean - left:.1f}" height="{_BAR}" fill="#4c8dae"/>'
    yield f'<path d="M{low} {middle}H{high}" stroke="#24292f" stroke-width="2"/>'
    yield f'<text x="{high + 8:.1f}" y="{middle + 5}">{fmean(row):.1%}</text>'


#: What is compared: default profiles in which one plugin has weight 10.
PROFILES = profiles_to_compare("GpuPacking", ["cpu", "memory", GPU])


class RunResult(msgspec.Struct, frozen=True):
    """What a run came to: how often the cluster was full, and shares of the demand.

    `placeable` is the share that could still be placed when the cluster was full, by the size of the pods, the mean of
    all counts; `turned_away` the share that found no room when it came.
    """

    counts: int
    placeable: Mapping[int, float]
    turned_away: float

    @property
    def mix(self) -> float:
        """The placeable share of the mixed demand."""
        return fmean(self.placeable.values(), [gpus * SIZES[gpus] for gpus in self.placeable])


def main(arguments: Sequence[str] = ()) -> None:
    """Run the simulation and print its table."""
    options = options_of(arguments, module="gpu_packing", nodes=64, node="8 GPUs", pods=2000)
    results = run_seeds(run, PROFILES, options)
    sys.stdout.write("\n".join(table(results)) + "\n")
    if options.svg is not None:
        options.svg.write_text(bar_chart({profile: [each.mix for each in runs] for profile, runs in results.items()}))


def run(profile: str, nodes: int, pods: int, seed: int) -> RunResult:
    """Let the pods of one seed come and go under one profile."""
    course = PackingCourse(nodes, seed, warm_up=round(WARM_UP * pods))
    scenario = Scenario(nodes=make_nodes(nodes), plugins=[GpuPacking], config=PROFILES[profile])
    for position in range(pods):
        scenario.at(position * STEP, course.step)
    scenario.run()
    return RunResult(
        counts=len(course.counts),
        placeable={gpus: fmean(placeable(free, gpus) for free in course.counts) for gpus in SIZES},
        turned_away=course.turned_away / course.requested,
    )


def placeable(free: Sequence[int], gpus: int) -> float:
    """Return the share of the free GPUs that pods of `gpus` GPUs could use.

    This share of a demand as large as the free GPUs could be placed, if it came in pods of this size.
    """
    return sum(amount // gpus * gpus for amount in free) / sum(free)


def table(results: Mapping[str, Sequence[RunResult]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, and how often the last profile beats each of the others."""
    yield f"| Scored by | {' | '.join(f'{gpus} GPU' for gpus in SIZES)} | the mix | lowest to highest | turned away |"
    yield "|---|" + "---:|" * (len(SIZES) + 3)
    for profile, runs in results.items():
        mix = [ran.mix for ran in runs]
        cells = [f"{fmean(ran.placeable[gpus] for ran in runs):.1%}" for gpus in SIZES]
        cells += [f"**{fmean(mix):.1%}** ± {stdev(mix):.1%}", f"{min(mix):.1%} to {max(mix):.1%}"]
        yield f"| {profile} | {' | '.join(cells)} | {fmean(ran.turned_away for ran in runs):.1%} |"
    yield from comparisons(results)


if __name__ == "__main__":
    main(sys.argv[1:])
