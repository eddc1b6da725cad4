"""Cases of the recipes: plugins that go by prices, caches, a model, maintenance, shares and hours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cache_locality import DATASET, DATASETS
from cheapest import MAX_PER_HOUR
from learned.model import read_model
from maintenance import STARTS
from msgspec.structs import replace
from time_of_day import RUN

from kframework.objects import Pod
from kframework.testing import make_node, make_pod
from tests.contract.case import Case, World

__all__ = ["CASES"]

TYPE, CAPACITY = "node.kubernetes.io/instance-type", "karpenter.sh/capacity-type"
EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL, SCORER = EXAMPLES / "learned/model.json", EXAMPLES / "learned_packing/scorer.json"


def paying(limit: str, cpu: str, memory: str = "1Gi") -> Pod:
    """Make a pod that says what it may cost."""
    return make_pod(f"pays-{limit}", labels={MAX_PER_HOUR: limit}, cpu=cpu, memory=memory)


def reader(dataset: str) -> Pod:
    """Make a pod that reads a dataset."""
    return make_pod(f"reads-{dataset}", labels={DATASET: dataset})


def ending(minutes: int) -> Pod:
    """Make a pod that runs for so long at most."""
    pod = make_pod(f"ends-{minutes}")
    return replace(pod, spec=replace(pod.spec, active_deadline_seconds=minutes * 60))


def slowing(cpu: float, memory: float, pods: int) -> int:
    """Return the score of a node that is so full, by the model."""
    return -round(1000 * read_model(MODEL).slowdown(cpu, memory, pods))


def member(name: str, team: str, cpu: str, memory: str = "1Gi") -> Pod:
    """Make a pod of a team."""
    return make_pod(name, labels={"team": team}, cpu=cpu, memory=memory)


#: Two teams with a share, and one without.
TEAMS = World(
    args={"teams": {"red": {"cpu": 2, "memoryGi": 4}, "blue": {"cpu": 1}}},
    pods=[
        member("small", "red", "1"),
        member("large", "red", "0", "3Gi"),
        member("blue", "blue", "1", "8Gi"),
        member("free", "green", "16"),
    ],
)

CASES: Mapping[str, Case] = {
    "LearnedPacking": Case(worlds=[World(args={"scorer": str(SCORER)})], scores={-792, -1584}),
    "CacheLocality": Case(
        worlds=[
            World(
                args={"datasets": 2},
                nodes=[
                    make_node("newest", annotations={DATASETS: "maps"}),
                    make_node("second", annotations={DATASETS: " , genomes,genomes, maps,dropped"}),
                ],
                pods=[reader("maps"), reader("dropped")],
            )
        ],
        scores={0, 50, 100},
    ),
    "Cheapest": Case(
        worlds=[
            World(
                args={"prices": {"small": 0.1, "free": 0}, "defaultPrice": 1, "spotFactor": 0.5},
                nodes=[
                    make_node("small", cpu=2, memory="8Gi", labels={TYPE: "small"}),
                    make_node("spot", cpu=2, memory="8Gi", labels={TYPE: "small", CAPACITY: "spot"}),
                    make_node("free", labels={TYPE: "free"}),
                ],
                pods=[make_pod("web", cpu=1), paying("0.03", "1"), paying("much", "1")],
            )
        ],
        waking=[
            World(
                args={"prices": {"small": 0.1}, "defaultPrice": 1},
                nodes=[make_node(name, cpu=cpu, labels={TYPE: name}) for name, cpu in (("small", 2), ("large", 32))],
                pods=[paying("0.02", "1"), paying("0.01", "250m")],
            )
        ],
        reasons={"node(s) cost the pod more than 0.03 an hour", f"label {MAX_PER_HOUR} must be a number"},
        scores={0, 25_000, 50_000, 1_000_000},
    ),
    "LearnedScore": Case(
        worlds=[World(args={"model": str(MODEL)}, pods=[make_pod("large", cpu=None, memory="1Ti")])],
        scores={slowing(0, 0, 0), slowing(0, 1, 1)},
    ),
    "Maintenance": Case(
        worlds=[
            World(
                nodes=[
                    make_node("at-one", annotations={STARTS: "2026-01-01T01:00:00Z"}),
                    make_node("wrong", annotations={STARTS: "tomorrow"}),
                    make_node("nowhere", annotations={STARTS: "2026-01-01T01:00:00"}),
                ],
                pods=[ending(30), ending(90)],
            )
        ],
        waking=[
            World(
                nodes=[make_node(f"at-{hour}", annotations={STARTS: f"2026-01-01T0{hour}:00:00Z"}) for hour in (1, 2)],
                pods=[ending(90), ending(150)],
            )
        ],
        reasons={
            "node(s) had maintenance before the pod would end",
            f"node(s) had a {STARTS} that is no RFC 3339 time",
        },
    ),
    "TeamQuota": Case(
        worlds=[TEAMS],
        waking=[
            TEAMS,
            World(
                args={"teams": {"red": {"cpu": 8}}},
                pods=[member("large", "red", "6"), member("small", "red", "1")],
            ),
        ],
        reasons={
            f"team {team} has less left of its {share} than requested"
            for team, share in (("red", "2 cpu"), ("red", "4 Gi of memory"), ("blue", "1 cpu"))
        },
    ),
    "TimeOfDay": Case(
        worlds=[
            World(
                pods=[make_pod("batch", labels={RUN: "off-peak"}), make_pod("web")],
                sources={"hours": {"off-peak": False}},
            )
        ],
    ),
}
