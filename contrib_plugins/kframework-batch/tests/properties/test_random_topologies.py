"""Random worlds of hypernodes: where jobs are placed, and what accounts say of it, against a slow and obvious model.

All tasks ask for one cpu, so a hypernode holds as many as it has free, and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from kframework_batch.account import RejectedHypernode, Turn, TurnOutcome
from kframework_batch.objects import HyperNode, NetworkTopology
from kframework_batch.testing import Gang, Stage, make_gang, make_hypernode, make_node
from msgspec.structs import replace

from tests.support.scale import seeds

PLAIN = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""
CONFIGURATIONS = (PLAIN, f"{PLAIN}- plugins: [{{name: network-topology-aware}}]")


class World:
    """Nodes, up to seven hypernodes of three tiers, and jobs, some of them partly running."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.free = {f"n{number}": random.randint(1, 4) for number in range(random.randint(3, 8))}
        self.nodes = [make_node(name, cpu=cpu) for name, cpu in self.free.items()]
        names = list(self.free)
        #: Tier and nodes of each hypernode.
        self.trees: dict[str, tuple[int, set[str]]] = {}
        self.objects: list[HyperNode] = []
        racks: list[str] = []
        for number in range(random.randint(1, 4)):
            members = set(random.sample(names, random.randint(1, 3)))
            self._add(f"r{number}", 1, "Node", members, members)
            racks.append(f"r{number}")
        for number in range(random.randint(0, 2)):
            inside = random.sample(racks, random.randint(1, len(racks)))
            held = set[str]().union(*(self.trees[rack][1] for rack in inside))
            self._add(f"h{number}", random.choice((2, 3)), "HyperNode", set(inside), held)
        self.limits: dict[str, tuple[str, int | None]] = {}
        self.running: dict[str, set[str]] = {}
        self.gangs = [self._gang(random, number) for number in range(random.randint(1, 5))]
        self.stage = Stage(
            random.choice(CONFIGURATIONS), nodes=self.nodes, gangs=self.gangs, objects=self.objects, seed=seed
        )

    def _add(self, name: str, tier: int, kind: str, members: set[str], nodes: set[str]) -> None:
        self.objects.append(make_hypernode(name, tier, *sorted(members), kind=kind))
        self.trees[name] = (tier, nodes)

    def _gang(self, random: Random, number: int) -> Gang:
        name, size = f"j{number}", random.randint(1, 7)
        on = [node for node in random.sample(list(self.free), 2) if self.free[node] > 0][: random.choice((0, 0, 1, 2))]
        on = on[: size - 1]
        for node in on:
            self.free[node] -= 1
        mode, tier = random.choice((("hard", 1), ("hard", 2), ("hard", 3), ("hard", None), ("soft", None)))
        self.limits[name], self.running[name] = (mode, tier), set(on)
        group, pods = make_gang(name, size, on=on, age=float(99 - number))
        topology = NetworkTopology(mode=mode, highest_tier_allowed=tier)
        return replace(group, spec=replace(group.spec, network_topology=topology)), pods

    def allowed(self, job: str) -> list[str]:
        """Name the hypernodes in which a job may be, the lowest tier first."""
        _, highest = self.limits[job]
        found = [
            name
            for name, (tier, nodes) in self.trees.items()
            if self.running[job] <= nodes and (highest is None or tier <= highest)
        ]
        return sorted(found, key=lambda name: self.trees[name][0])

    def room(self, hypernode: str) -> int:
        return sum(self.free[node] for node in self.trees[hypernode][1])

    def check(self, turn: Turn) -> Iterator[str]:
        """Yield what is wrong with a turn, and let it be so."""
        job = turn.job.removeprefix("default/")
        pods = next(pods for group, pods in self.gangs if group.metadata.name == job)
        size, missing = len(pods), sum(not pod.spec.node_name for pod in pods)
        holding = [name for name in self.allowed(job) if self.room(name) >= missing]
        used = [verdict.node for verdict in turn.verdicts if verdict.node]
        anywhere = self.limits[job][0] == "soft" and sum(self.free.values()) >= missing
        served = turn.outcome is TurnOutcome.COMMITTED
        if served != bool(holding or anywhere):
            yield f"{job} is {turn.outcome}, but {holding} hold it"
        for tried in turn.rejected_hypernodes:
            if self.trees[tried.hypernode][0] != tried.tier or tried.hypernode not in self.allowed(job):
                yield f"{job} was not to be tried in {tried.hypernode}"
            if self.room(tried.hypernode) >= missing:
                yield f"{job} was tried in vain in {tried.hypernode}, which holds it"
            if tried.had > size - missing + self.room(tried.hypernode):
                yield f"{job} cannot have had {tried.had} in {tried.hypernode}"
        if served and holding:
            lowest = self.trees[holding[0]][0]
            if not turn.hypernode or self.trees[turn.hypernode][0] != lowest:
                yield f"{job} is in {turn.hypernode!r}, but {holding[0]} holds it"
            elif not {*used, *self.running[job]} <= self.trees[turn.hypernode][1]:
                yield f"{job} is on {used}, which is not all in {turn.hypernode}"
            before = {name for name in self.allowed(job) if self.trees[name][0] < lowest}
        else:
            before = set(self.allowed(job)) - {turn.hypernode}
            if turn.hypernode and self.room(turn.hypernode) < max(map(self.room, before), default=0):
                yield f"{job} has more room elsewhere than in {turn.hypernode}, where it keeps some"
        if not before <= {tried.hypernode for tried in turn.rejected_hypernodes}:
            yield f"{job} was not tried in all of {sorted(before)}"
        if turn.outcome is not TurnOutcome.DISCARDED:
            for node in used:
                self.free[node] -= 1


@pytest.mark.parametrize("seed", seeds(100))
def test_jobs_are_placed_in_the_lowest_tier_that_fits(seed: int) -> None:
    world = World(seed)
    world.stage.session().check()
    (account,) = world.stage.accounts
    assert [wrong for turn in account.turns for wrong in world.check(turn)] == []


def test_planted_errors_are_found() -> None:
    found = 0
    for seed in range(40):
        world = World(seed)
        world.stage.session()
        for turn in world.stage.accounts[0].turns:
            before = dict(world.free)
            for lie in lies(world, turn):
                assert [*world.check(lie)], lie
                world.free = dict(before)
                found += 1
            assert [*world.check(turn)] == []
    assert found > 100


def lies(world: World, turn: Turn) -> Iterator[Turn]:
    served = turn.outcome is TurnOutcome.COMMITTED
    yield replace(turn, outcome=TurnOutcome.DISCARDED if served else TurnOutcome.COMMITTED)
    if turn.hypernode and served:
        tier = world.trees[turn.hypernode][0]
        yield from (replace(turn, hypernode=name) for name, (other, _) in world.trees.items() if other != tier)
        yield replace(
            turn, rejected_hypernodes=(*turn.rejected_hypernodes, RejectedHypernode(turn.hypernode, tier, 0, "no room"))
        )
    if turn.rejected_hypernodes:
        first, *others = turn.rejected_hypernodes
        yield replace(turn, rejected_hypernodes=(replace(first, tier=9), *others))
        yield replace(turn, rejected_hypernodes=(replace(first, had=99), *others))
        if turn.outcome is TurnOutcome.DISCARDED:
            yield replace(turn, rejected_hypernodes=tuple(others))
