"""What two teams get of a cluster with fixed shares, without quotas, and with kframework-capacity-scheduling.

Run with `python -m benchmarks.elastic_quotas --svg contrib_plugins/kframework-capacity-scheduling/result.svg`.
The real scheduler runs on virtual time. The same jobs come in all three cases, and a job that is evicted starts again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

from kframework_capacity_scheduling.testing import quota, scenario

from benchmarks.time_panels import TimePanels
from benchmarks.timing import show
from kframework.engine import MemoryCluster
from kframework.objects import ApiObject, Pod, milli
from kframework.testing import RUN_SECONDS, make_node, make_pod

TEAMS = ("red", "blue")
NODES, CPUS, SHARE = 8, 8, 32
#: The length of the simulation, and the distance of two looks at the cluster, in seconds.
LENGTH, INTERVAL = 6 * 3600, 60
#: When the jobs of a team begin to come, and how far apart they are on average, in seconds.
DEMAND = {"red": (0, 35), "blue": (2 * 3600, 70)}


class Job(NamedTuple):
    """A job of a team: when it comes, and its pod, which runs for some minutes."""

    seconds: int
    pod: Pod


def make_jobs(seed: int) -> list[Job]:
    """Draw the jobs: red always asks for more than the cluster has, blue from some time on for what it is owed."""
    random = Random(seed)
    jobs: list[Job] = []
    for team, (second, gap) in DEMAND.items():
        while (second := second + random.randint(gap // 2, 3 * gap // 2)) < LENGTH:
            run = random.randint(5, 20) * 60
            name = f"{team}-{len(jobs)}"
            pod = make_pod(
                name, namespace=team, cpu=random.randint(1, 4), memory=None, annotations={RUN_SECONDS: str(run)}
            )
            jobs.append(Job(second // INTERVAL * INTERVAL, pod))
    return jobs


class Teams:
    """The course of one case: the cpu of each team at each look, and how long its jobs waited for their first start."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = list(jobs)
        self._unfinished: dict[str, Job] = {}
        self.cpu: dict[str, list[float]] = {team: [] for team in TEAMS}
        self.waits: dict[str, dict[str, float]] = {team: {} for team in TEAMS}
        self.restarts: int = 0

    def look(self, second: int, cluster: MemoryCluster) -> None:
        """Count what runs, submit the jobs that were evicted again, and those whose time has come."""
        pods = {pod.metadata.name: pod for pod in cluster.objects(Pod)}
        for team in TEAMS:
            active = [pod for pod in pods.values() if pod.metadata.namespace == team and pod.status.phase == "Running"]
            self.cpu[team].append(sum(milli(pod.spec.containers[0].resources.requests["cpu"]) for pod in active) / 1000)
        for name, job in list(self._unfinished.items()):
            team, pod = job.pod.metadata.namespace, pods.get(name)
            if pod is None:
                self.restarts += 1
                cluster.add(job.pod)
            elif pod.spec.node_name:
                self.waits[team].setdefault(name, second - job.seconds)
            if pod is not None and pod.status.phase == "Succeeded":
                del self._unfinished[name]
        for job in [job for job in self._jobs if job.seconds == second]:
            self._unfinished[job.pod.metadata.name] = job
            cluster.add(job.pod)

    @property
    def utilization(self) -> float:
        """The share of the cpu that was in use."""
        return fmean(map(sum, zip(*self.cpu.values(), strict=True))) / (NODES * CPUS)

    def wait(self, team: str) -> float:
        """Return the minutes for which the jobs of a team waited on average, those that never started included."""
        started = self.waits[team]
        waits = [started.get(job.pod.metadata.name, LENGTH - job.seconds) for job in self._jobs_of(team)]
        return fmean(waits) / 60

    def _jobs_of(self, team: str) -> Iterator[Job]:
        return (job for job in self._jobs if job.pod.metadata.namespace == team)


def run_case(jobs: Sequence[Job], quotas: Sequence[ApiObject]) -> Teams:
    """Run the jobs under these quotas."""
    teams = Teams(jobs)
    prepared = scenario([*(make_node(f"n{number}", cpu=CPUS) for number in range(NODES)), *quotas])
    for second in range(0, LENGTH, INTERVAL):
        prepared.at(second, partial(teams.look, second))
    prepared.run(until=LENGTH)
    return teams


def cases() -> Mapping[str, Sequence[ApiObject]]:
    """Return the quotas of each case."""
    return {
        "Fixed shares": [quota(team, min=SHARE, max=SHARE) for team in TEAMS],
        "No quotas": [],
        "Elastic quotas": [quota(team, min=SHARE) for team in TEAMS],
    }


_COLOURS = {"red": "#d55e00", "blue": "#0072b2"}
_PANELS = TimePanels(0, LENGTH, hours=2, most=NODES * CPUS, marks={str(cpus): cpus for cpus in (0, SHARE, 2 * SHARE)})


def area_chart(courses: Mapping[str, Teams]) -> str:
    """Draw the cpu of the teams over time, one on the other, a panel for each case."""
    panels = {f"{name}: {teams.utilization:.0%} used": list(_areas(teams)) for name, teams in courses.items()}
    return _PANELS.draw("CPUs in use by two teams, each owed half of the cluster", panels)


def _areas(teams: Teams) -> Iterator[str]:
    below = [0.0] * len(teams.cpu["red"])
    for team, cpu in teams.cpu.items():
        above = [low + high for low, high in zip(below, cpu, strict=True)]
        outline = [*_PANELS.positions(above), *reversed(_PANELS.positions(below))]
        yield f'<path d="M{"L".join(outline)}Z" fill="{_COLOURS[team]}"/>'
        below = above


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table; with `--svg FILE` draw the picture too."""
    jobs = make_jobs(seed=0)
    courses = {name: run_case(jobs, quotas) for name, quotas in cases().items()}
    rows = [
        (name, f"{teams.utilization:.0%}", *(f"{teams.wait(team):.0f} min" for team in TEAMS), str(teams.restarts))
        for name, teams in courses.items()
    ]
    show(("CASE", "CPU USED", "RED WAITS", "BLUE WAITS", "STARTED AGAIN"), rows)
    if list(arguments[:1]) == ["--svg"]:
        Path(arguments[1]).write_text(area_chart(courses))


if __name__ == "__main__":
    main(sys.argv[1:])
