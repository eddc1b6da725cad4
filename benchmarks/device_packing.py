"""How many claims can still be placed when 85 % of the devices are taken: the numbers of kframework-device-packing.

Run with `python -m benchmarks.device_packing --svg contrib_plugins/kframework-device-packing/result.svg`.
The real scheduler runs on virtual time, under one profile after the other. The same seed brings the same pods.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

import msgspec
from kframework_device_packing import DeviceBinPacking

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
from kframework.objects import (
    ApiObject,
    DeviceClass,
    Node,
    Pod,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kframework.testing import Scenario, make_node, make_pod

DRIVER = "gpu.example.com"
CARDS = 4
#: What a card has.
SLICES, MEMORY = 7, 80
#: Pods come until so much of the slices is taken; then pods end until it is so much less.
FULL, EBB = 0.85, 0.80


class Size(NamedTuple):
    """Slices and gigabytes that a claim takes, how many of these a card can be cut into, and how frequent they are."""

    slices: int
    memory: int
    each: int
    share: int


#: As an A100 of 80 GB is cut up: 1g.10gb, 2g.20gb, 3g.40gb, 7g.80gb. Each size makes up about a quarter of the demand.
SIZES: Mapping[str, Size] = {
    "small": Size(1, 10, 7, 12),
    "middle": Size(2, 20, 3, 6),
    "large": Size(3, 40, 2, 4),
    "whole": Size(7, 80, 1, 2),
}


def make_nodes(number: int) -> list[Node]:
    """Make the nodes of the cluster."""
    return [make_node(f"gpu-{position}", cpu=96, memory="768Gi") for position in range(number)]


def make_devices(nodes: int) -> list[ApiObject]:
    """Make the cards of the nodes, and for each size a class and a template of claims."""
    made: list[ApiObject] = []
    for size in SIZES:
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].size == "{size}"'}}
        of_class = {"metadata": {"name": size}, "spec": {"selectors": [selector]}}
        request = {"name": "gpu", "exactly": {"deviceClassName": size}}
        template = {
            "metadata": {"name": size, "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        made += [msgspec.convert(of_class, DeviceClass), msgspec.convert(template, ResourceClaimTemplate)]
    for node in make_nodes(nodes):
        made += _slices(node.metadata.name)
    return made


def _slices(node: str) -> Iterator[ResourceSlice]:
    """Yield the two slices of a node: counters stand in one of their own."""
    counters = [{"name": f"card-{card}", "counters": _counter_set(SLICES, MEMORY)} for card in range(CARDS)]
    devices = [
        {
            "name": f"card-{card}-{name}-{number}",
            "attributes": {"size": {"string": name}},
            "consumesCounters": [{"counterSet": f"card-{card}", "counters": _counter_set(size.slices, size.memory)}],
        }
        for card in range(CARDS)
        for name, size in SIZES.items()
        for number in range(size.each)
    ]
    for suffix, part in (("counters", {"sharedCounters": counters}), ("devices", {"devices": devices})):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **part}
        yield msgspec.convert({"metadata": {"name": f"{node}-{suffix}"}, "spec": spec}, ResourceSlice)


def _counter_set(slices: int, memory: int) -> Mapping[str, Mapping[str, str]]:
    return {"slices": {"value": str(slices)}, "memory": {"value": f"{memory}Gi"}}


def with_claim(pod: Pod, size: str) -> Pod:
    """Let a pod have a claim of this size made for it."""
    claim = PodResourceClaim(name="gpu", resource_claim_template_name=size)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=(claim,)))


class Running(NamedTuple):
    """A pod that has its devices."""

    name: str
    size: str
    #: Its node and the number of the card there.
    card: tuple[str, str]


class CardRoom(NamedTuple):
    """What is left of a card."""

    slices: int
    memory: int

    def room(self, size: Size) -> int:
        """Return how many claims of a size it could still take."""
        return min(self.slices // size.slices, self.memory // size.memory)


class PackingCourse:
    """What happens to the cluster, step by step; the scheduler has its say between two steps.

    In each step one pod comes. The one before it, if it found no room, is turned away. Whenever the cluster is so
    full, it is noted what is left of each card, and pods drawn at random end. The first `warm_up` pods fill the cluster
    and shuffle it; nothing is noted until they have come.
    """

    def __init__(self, nodes: int, seed: int, warm_up: int) -> None:
        self._slices = nodes * CARDS * SLICES
        self._coming = Random(f"pods that come {seed}")
        self._going = Random(f"pods that go {seed}")
        self._warm_up = warm_up
        self._latest: tuple[Pod, str] | None = None
        self._running: list[Running] = []
        self._cards = [(node.metadata.name, str(card)) for node in make_nodes(nodes) for card in range(CARDS)]
        self._came = 0
        #: What was left of each card, every time the cluster was full.
        self.counts: list[list[CardRoom]] = []
        #: How many claims of each size came, and those of them that were turned away.
        self.requested: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()

    def step(self, cluster: MemoryCluster) -> None:
        """Let one pod come, after what follows from the one before."""
        if self._latest is not None:
            self._settle(cluster, *self._latest)
        if self._taken() >= FULL * self._slices:
            if self._counting:
                self.counts.append(list(self._left()))
            while self._taken() > EBB * self._slices:
                ended = self._running.pop(self._going.randrange(len(self._running)))
                cluster.remove(Pod, ended.name, "default")
        self._came += 1
        size, pod = self._pod()
        self._latest = cluster.add(pod), size

    @property
    def _counting(self) -> bool:
        return self._came > self._warm_up

    def _taken(self) -> int:
        return sum(SIZES[pod.size].slices for pod in self._running)

    def _left(self) -> Iterator[CardRoom]:
        slices, memory = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for pod in self._running:
            slices[pod.card] += SIZES[pod.size].slices
            memory[pod.card] += SIZES[pod.size].memory
        for card in self._cards:
            yield CardRoom(SLICES - slices[card], MEMORY - memory[card])

    def _settle(self, cluster: MemoryCluster, pod: Pod, size: str) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        pod = cluster.read(Pod, name, namespace)
        placed = bool(pod.spec.node_name)
        if placed:
            claim = cluster.read(
                ResourceClaim, pod.status.resource_claim_statuses[0].resource_claim_name or "", namespace
            )
            assert claim.status.allocation is not None, "a pod that is bound has its devices"
            (got,) = claim.status.allocation.devices.results
            self._running.append(Running(name, size, (got.pool, got.device.split("-")[1])))
        else:
            cluster.remove(Pod, name, namespace)
        if self._counting:
            self.requested[size] += 1
            self.turned_away[size] += not placed

    def _pod(self) -> tuple[str, Pod]:
        (name,) = self._coming.choices(list(SIZES), [size.share for size in SIZES.values()])
        # At most 84 of 96 CPUs and 672 of 768 GiB for all slices of a node, so that nothing but devices runs out.
        slices = SIZES[name].slices
        cpu, memory = slices * self._coming.randint(1, 3), slices * self._coming.randint(8, 24)
        return name, with_claim(make_pod(f"pod-{self._came}", cpu=cpu, memory=f"{memory}Gi"), name)


_TITLE = "Share of the free slices that claims of each size could use, when 85 % are taken"
_AXIS = Axis(left=90, top=74, width=480)
_BAR, _GAP = 18, 20
_COLOURS = ("#c9803b", "#8c959f", "#4c8dae")


def bar_chart(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Draw the shares (0 to 1) by profile and size."""
    sizes = list(dict.fromkeys(size for row in shares.values() for size in row))
    group = _BAR * len(shares) + _GAP
    lines: list[str] = []
    for position, profile in enumerate(shares):
        x = _AXIS.left + 165 * position
        lines.append(f'<rect x="{x}" y="42" width="12" height="12" fill="{_COLOURS[position % len(_COLOURS)]}"/>')
        lines.append(f'<text x="{x + 18}" y="53">{escape(profile)}</text>')
    for position, size in enumerate(sizes):
        top = _AXIS.top + group * position + _GAP // 2
        middle = top + (group - _GAP) / 2 + 5
        lines.append(f'<text x="{_AXIS.left - 10}" y="{middle}" text-anchor="end">{escape(size)}</text>')
        for number, row in enumerate(shares.values()):
            lines += _bar(row[size], top + _BAR * number, _COLOURS[number % len(_COLOURS)])
    return _AXIS.svg(_TITLE, _AXIS.top + group * len(sizes) + 30, lines)


def _bar(share: float, top: int, colour: str) -> Iterator[str]:
    left, right = _AXIS.left, _AXIS.across(share)
    yield f'<rect x="{left}" y="{top}" width="{right - left:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
    yield f'<text x="{right + 6:.1f}" y="{top + 13}" font-size="12">{share:.1%}</text>'


#: What is compared: default profiles in which one plugin has weight 10.
PROFILES = profiles_to_compare("DeviceBinPacking", ["cpu", "memory"])


class RunResult(msgspec.Struct, frozen=True):
    """What a run came to: how often the cluster was full, and two shares by the size of the claims.

    `placeable` is which share of the free slices claims could use when the cluster was full, the mean of all counts;
    `turned_away` the share of the claims that found no room when they came.
    """

    counts: int
    placeable: Mapping[str, float]
    turned_away: Mapping[str, float]

    @property
    def mix(self) -> float:
        """The placeable share of the mixed demand."""
        return fmean(self.placeable.values())


def main(arguments: Sequence[str] = ()) -> None:
    """Run the simulation and print its tables."""
    options = options_of(arguments, module="device_packing", nodes=16, node="4 cards", pods=1500)
    results = run_seeds(run, PROFILES, options)
    sys.stdout.write("\n".join(table(results)) + "\n")
    if options.svg is not None:
        options.svg.write_text(bar_chart({profile: _placeable(runs) for profile, runs in results.items()}))


def run(profile: str, nodes: int, pods: int, seed: int) -> RunResult:
    """Let the pods of one seed come and go under one profile."""
    course = PackingCourse(nodes, seed, warm_up=round(WARM_UP * pods))
    scenario = Scenario(
        nodes=make_nodes(nodes), objects=make_devices(nodes), plugins=[DeviceBinPacking], config=PROFILES[profile]
    )
    for position in range(pods):
        scenario.at(position * STEP, course.step)
    scenario.run()
    return RunResult(
        counts=len(course.counts),
        placeable={name: fmean(placeable(left, size) for left in course.counts) for name, size in SIZES.items()},
        turned_away={name: course.turned_away[name] / course.requested[name] for name in SIZES},
    )


def placeable(left: Sequence[CardRoom], size: Size) -> float:
    """Return which share of the free slices claims of a size could use."""
    return sum(card.room(size) for card in left) * size.slices / sum(card.slices for card in left)


def table(results: Mapping[str, Sequence[RunResult]]) -> Iterator[str]:
    """Yield the lines of two Markdown tables, and how often the last profile beats each of the others."""
    yield f"| Placeable, scored by | {' | '.join(SIZES)} | the mix | lowest to highest |"
    yield "|---|" + "---:|" * (len(SIZES) + 2)
    for profile, runs in results.items():
        mix = [ran.mix for ran in runs]
        cells = [f"{share:.1%}" for share in _placeable(runs).values()]
        cells += [f"**{fmean(mix):.1%}** ± {stdev(mix):.1%}", f"{min(mix):.1%} to {max(mix):.1%}"]
        yield f"| {profile} | {' | '.join(cells)} |"
    yield ""
    yield f"| Turned away, scored by | {' | '.join(SIZES)} |"
    yield "|---|" + "---:|" * len(SIZES)
    for profile, runs in results.items():
        shares = (fmean(ran.turned_away[size] for ran in runs) for size in SIZES)
        yield f"| {profile} | {' | '.join(f'{share:.1%}' for share in shares)} |"
    yield from comparisons(results)


def _placeable(runs: Sequence[RunResult]) -> Mapping[str, float]:
    return {size: fmean(ran.placeable[size] for ran in runs) for size in SIZES}


if __name__ == "__main__":
    main(sys.argv[1:])
