"""How many pods their nodes refuse with and without kframework-numa, and with its cache.

Run with `python -m benchmarks.numa_zones --svg contrib_plugins/kframework-numa/result.svg`. The real scheduler runs on
virtual time; each node admits a pod only if its CPUs fit one NUMA zone, and its agent reports every 30 seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from random import Random
from typing import NamedTuple

from kframework_numa import NodeResourceTopologyMatch
from kframework_numa.testing import PUBLISHED, WITH_CACHE, Kubelets, guaranteed_pod

from benchmarks.timing import show
from kframework.engine import MemoryCluster
from kframework.objects import Pod
from kframework.testing import RUN_SECONDS, Scenario, create, make_node

NODES, ZONES, CPUS = 8, 4, 8
#: The length of the simulation, the distance of two reports, and of two looks of a node at its pods, in seconds.
LENGTH, REPORT, LOOK = 3600, 30, 1
#: How far apart the jobs come on average, in seconds.
GAP = 8

_DEFAULT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
CASES = {"Default plugins": _DEFAULT, "NUMA, no cache": PUBLISHED, "NUMA with the cache": WITH_CACHE}


class ZoneCourse(NamedTuple):
    """The number of refused pods at each report, and the share of the CPUs that admitted pods had."""

    course: Sequence[int]
    started: int
    utilization: float


def make_jobs(seed: int) -> list[tuple[int, Pod]]:
    """Draw jobs of 3 to 6 CPUs, where a zone has 8; each runs for 5 to 15 minutes."""
    random = Random(seed)
    jobs: list[tuple[int, Pod]] = []
    second = 0
    while (second := second + random.randint(1, 2 * GAP - 1)) < LENGTH:
        run = {RUN_SECONDS: str(random.randint(300, 900))}
        pod = guaranteed_pod(f"job-{len(jobs)}", {"cpu": random.randint(3, 6)}, annotations=run)
        jobs.append((second, pod))
    return jobs


def run_case(config: str, jobs: Sequence[tuple[int, Pod]], length: int = LENGTH) -> ZoneCourse:
    """Run the jobs under a configuration."""
    kubelets = Kubelets({f"n{number}": [CPUS] * ZONES for number in range(NODES)})
    nodes = [make_node(f"n{number}", cpu=ZONES * CPUS, memory="256Gi") for number in range(NODES)]
    scenario = Scenario(nodes=nodes, objects=kubelets.reports(), plugins=[NodeResourceTopologyMatch], config=config)
    course: list[int] = []
    used: list[int] = []

    def report(cluster: MemoryCluster) -> None:
        kubelets.publish(cluster)
        course.append(len(kubelets.refused))
        used.append(kubelets.used_cpus)

    for second in range(0, length, LOOK):
        scenario.at(second + 0.5, kubelets.admit)
    for second in range(REPORT, length, REPORT):
        scenario.at(second + 0.6, report)
    for second, pod in jobs:
        scenario.at(second, create(pod))
    scenario.run(until=length)
    return ZoneCourse(course, kubelets.admitted, sum(used) / len(used) / (NODES * ZONES * CPUS))


_COLOURS = ("#d55e00", "#e69f00", "#0072b2")
_LEFT, _TOP, _WIDTH, _HEIGHT = 50, 50, 480, 180


def line_chart(courses: Mapping[str, ZoneCourse]) -> str:
    """Draw the number of refused pods over time, a line for each case."""
    title = "Pods that their nodes refused with TopologyAffinityError"
    most = max(1, *(case.course[-1] for case in courses.values()))
    head = 'viewBox="0 0 720 270" role="img" font-family="sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {head} fill="#24292f">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value in (0, most):
        y = _TOP + _HEIGHT * (1 - value / most)
        lines.append(f'<path d="M{_LEFT} {y:.0f}h{_WIDTH}" stroke="#57606a" stroke-dasharray="3 3"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{value}</text>')
    for minute in range(0, LENGTH // 60 + 1, 20):
        x = _LEFT + _WIDTH * minute * 60 / LENGTH
        lines.append(f'<text x="{x:.0f}" y="{_TOP + _HEIGHT + 18}" text-anchor="middle">{minute} min</text>')
    for (name, case), colour in zip(courses.items(), _COLOURS, strict=True):
        points = [
            f"{_LEFT + _WIDTH * (index + 1) * REPORT / LENGTH:.1f} {_TOP + _HEIGHT * (1 - value / most):.1f}"
            for index, value in enumerate(case.course)
        ]
        # In the order of the cases, so that labels of like numbers do not overlap.
        y = max(_TOP + 16 * list(courses).index(name), _TOP + _HEIGHT * (1 - case.course[-1] / most))
        lines.append(f'<path d="M{"L".join(points)}" stroke="{colour}" stroke-width="2" fill="none"/>')
        label = f"{name}: {case.course[-1]}"
        lines.append(f'<text x="{_LEFT + _WIDTH + 6}" y="{y + 4:.0f}" fill="{colour}">{escape(label)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table; with `--svg FILE` draw the picture too."""
    jobs = make_jobs(seed=0)
    courses = {name: run_case(config, jobs) for name, config in CASES.items()}
    rows = [
        (name, str(each.course[-1]), str(each.started), f"{each.utilization:.0%}") for name, each in courses.items()
    ]
    show(("CASE", "REFUSED", "STARTED", "CPU USED"), rows)
    if list(arguments[:1]) == ["--svg"]:
        Path(arguments[1]).write_text(line_chart(courses))


if __name__ == "__main__":
    main(sys.argv[1:])
