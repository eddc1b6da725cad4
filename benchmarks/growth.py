"""How a scheduling cycle grows with nodes, templates, pods and plugins: figures, and a picture of them.

Run with `python -m benchmarks.growth`; it writes docs/cycle-time.svg. The engine is driven directly, as in `cycle.py`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from benchmarks.cycle import NODES, PodReadingPlugin, Shape, cycles, make_engine, pod, with_spread, without_constraints
from benchmarks.line_chart import Panel, line_chart
from benchmarks.timing import show
from kframework import Plugin
from kframework.objects import Pod
from kframework.state.inbox import Upserted

PICTURE = Path(__file__).parents[1] / "docs" / "cycle-time.svg"


@dataclass(frozen=True)
class Sizes:
    """A cluster, and the pods scheduled on it: their templates in turn, and how many run already."""

    nodes: int = NODES
    templates: int = 1
    pods: int = 0
    plugins: int = 0
    percentage: int = 0
    shape: Shape = without_constraints


@dataclass(frozen=True)
class Sweep:
    """What is changed and what is not: the lines of a panel, and the sizes at which each is measured."""

    title: str
    along: str
    at: Callable[[Sizes, int], Sizes]
    sizes: Sequence[int]
    lines: Mapping[str, Sizes]


SWEEPS = (
    Sweep(
        "Nodes",
        "nodes",
        lambda sizes, nodes: replace(sizes, nodes=nodes),
        (50, 150, 500, 1_500, 5_000, 15_000, 50_000),
        {"sampled": Sizes(), "all nodes scored": Sizes(percentage=100)},
    ),
    Sweep(
        "Templates",
        "templates of pods, in turn",
        lambda sizes, templates: replace(sizes, templates=templates),
        (1, 5, 20, 100, 200, 500, 1_000, 2_000, 2_500, 5_000),
        {"sampled": Sizes(), "all nodes scored": Sizes(percentage=100)},
    ),
    Sweep(
        "Pods",
        "pods that run already",
        lambda sizes, pods: replace(sizes, pods=pods),
        (500, 2_000, 10_000, 50_000, 100_000, 200_000),
        {"plain": Sizes(), "with spread constraints": Sizes(shape=with_spread)},
    ),
    Sweep(
        "Plugins",
        "plugins that say what they read, beside the default ones",
        lambda sizes, plugins: replace(sizes, plugins=plugins),
        (1, 2, 4, 8, 16, 32),
        {"one template": Sizes(), "20 templates in turn": Sizes(templates=20)},
    ),
)


def cycle_time(sizes: Sizes, count: int) -> float:
    """Measure `count` cycles; return the lower quartile of their processor time, in microseconds."""
    engine, host = make_engine(percentage=sizes.percentage, plugins=_plugins(sizes.plugins), nodes=sizes.nodes)
    for index in range(sizes.pods):
        engine.offer(Upserted(_running(index, sizes)))
    for message in engine.inbox.drain():
        engine._apply(message)
    warm = max(50, 2 * sizes.templates)
    list(cycles(engine, host, sizes.templates, warm, first=10_000_000, shape=sizes.shape))
    gc.collect()
    gc.freeze()
    times = sorted(cycles(engine, host, sizes.templates, count, first=20_000_000, shape=sizes.shape))
    gc.unfreeze()
    return times[count // 4] / 1_000


def _plugins(count: int) -> tuple[type[Plugin], ...]:
    """Make plugins that say what they read."""
    names = [f"PodReader{number}" for number in range(count)]
    return tuple(type(name, (PodReadingPlugin,), {"name": name}) for name in names)


def _running(index: int, sizes: Sizes) -> Pod:
    """Make a pod that runs."""
    engine = pod(index, index % sizes.templates, sizes.shape)
    spec = msgspec.structs.replace(engine.spec, node_name=f"node-{index % sizes.nodes}")
    return msgspec.structs.replace(engine, spec=spec)


def measure_sweep(sweep: Sweep, measure: Callable[[Sizes], float]) -> Panel:
    """Measure the lines of a sweep."""
    lines = {
        name: [(size, measure(sweep.at(sizes, size))) for size in sweep.sizes] for name, sizes in sweep.lines.items()
    }
    return Panel(sweep.title, sweep.along, sweep.sizes, lines)


def main(sweeps: Sequence[Sweep] = SWEEPS, cycles_each: int = 2_000, picture: Path = PICTURE) -> None:
    """Measure it all, print the figures and draw them."""
    panels = []
    for sweep in sweeps:
        panel = measure_sweep(sweep, lambda sizes: cycle_time(sizes, cycles_each))
        columns = [[figure for _, figure in line] for line in panel.lines.values()]
        show((panel.along, *panel.lines), list(zip(panel.marks, *columns, strict=True)))
        print(flush=True)
        panels.append(panel)
    subtitle = f"Microseconds; {NODES:,} nodes, the default profile and one template unless the axis says otherwise"
    picture.write_text(line_chart("What a scheduling cycle takes", subtitle, panels))
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
