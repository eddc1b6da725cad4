"""Profiles that pack a cluster, run side by side on virtual time: shared by the studies of the packing plugins."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from html import escape
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol, TypeVar

#: Seconds between the arrival of two pods: enough for a pod that ends to be gone, and its claim with it.
STEP = 60.0
#: The share of the pods that only fill the cluster and shuffle it.
WARM_UP = 0.3

_PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled:
          - name: {plugin}
            weight: 10
"""
_FIT_ARGS = """\
    pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: {strategy}
            resources:
"""
_STYLE = 'role="img" font-family="sans-serif" font-size="14" fill="#24292f"'


class PackingResult(Protocol):
    """The result of one seed under one profile."""

    @property
    def mix(self) -> float:
        """The placeable share of the mixed demand."""


AnyResult = TypeVar("AnyResult", bound=PackingResult)


def profiles_to_compare(plugin: str, resources: Sequence[str]) -> Mapping[str, str]:
    """Return default profiles in which one plugin has weight 10: two strategies of NodeResourcesFit, and `plugin`."""
    weights = "".join(f"              - name: {resource}\n                weight: 1\n" for resource in resources)
    fit = _PROFILE.format(plugin="NodeResourcesFit") + _FIT_ARGS + weights
    strategies = {strategy: fit.format(strategy=strategy) for strategy in ("LeastAllocated", "MostAllocated")}
    return {**strategies, plugin: _PROFILE.format(plugin=plugin)}


def options_of(arguments: Sequence[str], *, module: str, nodes: int, node: str, pods: int) -> Namespace:
    """Parse the command line of a study: seeds, nodes, pods, and the picture to draw."""
    parser = ArgumentParser(prog=f"python -m benchmarks.{module}")
    parser.add_argument("--seeds", type=int, default=20, help="how many streams of pods (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=nodes, help=f"how many nodes of {node} (default: %(default)s)")
    parser.add_argument("--pods", type=int, default=pods, help="how many pods come (default: %(default)s)")
    parser.add_argument("--svg", type=Path, help="draw the result to this file")
    return parser.parse_args(arguments)


def run_seeds(
    run: Callable[[str, int, int, int], AnyResult], profiles: Mapping[str, str], options: Namespace
) -> Mapping[str, Sequence[AnyResult]]:
    """Run each profile on the same seeds, in as many processes as there are cores."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return {
            profile: list(pool.map(partial(run, profile, options.nodes, options.pods), range(options.seeds)))
            for profile in profiles
        }


def comparisons(results: Mapping[str, Sequence[AnyResult]]) -> Iterator[str]:
    """Yield how often the last profile beats each of the others."""
    *others, ours = results
    for other in others:
        better = sum(mine.mix > theirs.mix for mine, theirs in zip(results[ours], results[other], strict=True))
        yield ""
        yield f"{ours} keeps more placeable than {other} with {better} of {len(results[ours])} seeds."


class Axis:
    """A chart's horizontal axis of shares, from 0 to 100 %."""

    def __init__(self, left: int, top: int, width: int) -> None:
        self.left = left
        self.top = top
        self.width = width

    def across(self, share: float) -> float:
        """Return the x of a share."""
        return round(self.left + self.width * share, 1)

    def svg(self, title: str, height: int, body: Sequence[str]) -> str:
        """Return a chart of this height: the title, the grid, and what is drawn over it."""
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.left + self.width + 70} {height}" {_STYLE}>',
            f"<title>{escape(title)}</title>",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<text x="12" y="26" font-weight="bold">{escape(title)}</text>',
        ]
        for percent in range(0, 101, 25):
            x = self.across(percent / 100)
            lines.append(f'<path d="M{x} {self.top}V{height - 30}" stroke="#d0d7de"/>')
            lines.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle" font-size="12">{percent} %</text>')
        return "\n".join([*lines, *body, "</svg>", ""])
