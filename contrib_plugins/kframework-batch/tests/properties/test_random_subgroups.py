"""Random worlds of racks, in which jobs with subgroups are held against a model of them.

Racks share no node, all subgroups of a job are of one size, and each is to be in one rack: so how many of them fit is
plain arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random

import msgspec
import pytest
from kframework_batch.account import SessionAccount, SubJobTurn, Turn, TurnOutcome
from kframework_batch.objects import NetworkTopology, SubGroupPolicy
from kframework_batch.testing import Gang, Stage, make_gang, make_hypernode, make_node
from msgspec.structs import replace

from tests.support.scale import seeds

CONFIGURATIONS = tuple(
    f'actions: "allocate"\ntiers:\n- plugins: [{{name: gang}}, {{name: predicates}}, {{name: nodeorder}}{more}]\n'
    for more in ("", ", {name: network-topology-aware}")
)


class Job(msgspec.Struct):
    """The request of a job: a number of subgroups of one size, a minimum of them, all in one hall or anywhere."""

    size: int
    parts: int
    needed: int
    in_hall: bool


class World:
    """Racks of one to three nodes in one or two halls, and jobs."""

    def __init__(self, seed: int) -> None:
        random = Random(seed)
        self.free: dict[str, int] = {}
        self.racks: dict[str, list[str]] = {}
        self.halls: dict[str, list[str]] = {"h0": [], "h1": []}
        for rack in range(random.randint(2, 5)):
            name = f"r{rack}"
            self.racks[name] = [f"{name}n{node}" for node in range(random.randint(1, 3))]
            self.free |= {node: random.randint(1, 4) for node in self.racks[name]}
            self.halls[random.choice(("h0", "h1"))].append(name)
        objects = [make_hypernode(name, 1, *nodes) for name, nodes in self.racks.items()]
        objects += [make_hypernode(name, 2, *racks, kind="HyperNode") for name, racks in self.halls.items() if racks]
        self.jobs: dict[str, Job] = {}
        self.part_of: dict[str, str] = {}
        self.gangs = [self._gang(random, f"j{number}", number) for number in range(random.randint(1, 4))]
        nodes = [make_node(name, cpu=cpu) for name, cpu in self.free.items()]
        self.stage = Stage(random.choice(CONFIGURATIONS), nodes=nodes, gangs=self.gangs, objects=objects, seed=seed)

    def _gang(self, random: Random, name: str, number: int) -> Gang:
        size, parts = random.randint(1, 4), random.randint(1, 3)
        job = self.jobs[name] = Job(size, parts, random.randint(1, parts), random.random() < 0.5)
        group, pods = make_gang(name, size * parts, minimum=size * job.needed, age=float(99 - number))
        policy = SubGroupPolicy(
            name="w",
            match_label_keys=("part",),
            sub_group_size=size,
            min_sub_groups=job.needed,
            network_topology=NetworkTopology(mode="hard", highest_tier_allowed=1),
        )
        topology = NetworkTopology(mode="hard", highest_tier_allowed=2) if job.in_hall else None
        spec = replace(group.spec, sub_group_policy=(policy,), network_topology=topology)
        order = [str(n % parts) for n in range(len(pods))]
        random.shuffle(order)
        for pod, part in zip(pods, order, strict=True):
            self.part_of[pod.metadata.name] = f"w-{part}"
        labelled = [
            replace(pod, metadata=replace(pod.metadata, labels={"part": part}))
            for pod, part in zip(pods, order, strict=True)
        ]
        return replace(group, spec=spec), labelled

    def room(self, rack: str) -> int:
        return sum(self.free[node] for node in self.racks[rack])

    def fitting(self, job: Job) -> int:
        """Count the subgroups that fit, in whatever the job may have."""
        sets = [*self.halls.values()] if job.in_hall else [[*self.racks]]
        return max(sum(self.room(rack) // job.size for rack in racks) for racks in sets)

    def check(self, account: SessionAccount) -> Iterator[str]:
        """Yield what is wrong with an account, turn by turn."""
        served: set[str] = set()
        for turn in account.turns:
            name = turn.job.removeprefix("default/")
            job = self.jobs[name]
            if name not in served and (turn.outcome is TurnOutcome.COMMITTED) != (self.fitting(job) >= job.needed):
                yield f"{name} is {turn.outcome}, and {self.fitting(job)} of {job.needed} fit"
            yield from self._wrong_parts(turn, job)
            if turn.outcome is TurnOutcome.COMMITTED:
                served.add(name)
                for verdict in turn.verdicts:
                    if verdict.node:
                        self.free[verdict.node] -= 1
        if any(amount < 0 for amount in self.free.values()):
            yield "there is not so much room"
        yield from self._wrong_places({pod.removeprefix("default/"): node for pod, node in account.bound}, served)

    def _wrong_parts(self, turn: Turn, job: Job) -> Iterator[str]:
        """Check what is said of subgroups by the verdicts of the turn."""
        placed = {verdict.pod.removeprefix("default/"): verdict.node for verdict in turn.verdicts if verdict.node}
        counts = Counter(self.part_of[pod] for pod in placed)
        for part in turn.subjobs:
            where = {self._rack(node) for pod, node in placed.items() if self.part_of[pod] == part.subjob}
            if part.minimum != job.size or (part.outcome is TurnOutcome.COMMITTED) != (part.had >= job.size):
                yield f"{part.subjob} had {part.had} of {part.minimum}, which is {job.size}, and is {part.outcome}"
            if part.outcome is TurnOutcome.COMMITTED and (
                where - {part.hypernode} or counts[part.subjob] not in (0, job.size)
            ):
                yield f"{part.subjob} has room in {where}, not {part.hypernode}"
            if part.outcome is TurnOutcome.DISCARDED and (where or part.hypernode):
                yield f"{part.subjob} has room, and is discarded"
            for tried in part.rejected_hypernodes:
                if tried.hypernode not in self.racks or tried.tier != 1 or tried.had >= job.size:
                    yield f"{part.subjob} was tried in {tried}"
        for name in counts.keys() - {part.subjob for part in turn.subjobs if part.outcome is not TurnOutcome.DISCARDED}:
            yield f"nothing is said of {name}"

    def _wrong_places(self, bound: Mapping[str, str], served: set[str]) -> Iterator[str]:
        """Check that whole subgroups are bound, each in one rack, enough of them, and a job in one hall if it must."""
        for name, job in self.jobs.items():
            mine = {pod: node for pod, node in bound.items() if pod.startswith(f"{name}-")}
            counts = Counter(self.part_of[pod] for pod in mine)
            if set(counts.values()) - {job.size} or (len(counts) < job.needed) == (name in served):
                yield f"of {name} are bound {counts}"
            for part in counts:
                if len({self._rack(node) for pod, node in mine.items() if self.part_of[pod] == part}) > 1:
                    yield f"{part} of {name} is in several racks"
            if job.in_hall and len({self._hall(node) for node in mine.values()}) > 1:
                yield f"{name} is in several halls"

    def _rack(self, node: str) -> str:
        return next(rack for rack, nodes in self.racks.items() if node in nodes)

    def _hall(self, node: str) -> str:
        return next(hall for hall, racks in self.halls.items() if self._rack(node) in racks)


def account_of(world: World) -> SessionAccount:
    world.stage.session().check()
    (account,) = world.stage.accounts
    return account


@pytest.mark.parametrize("seed", seeds(100))
def test_needed_subgroups_are_served_whenever_possible(seed: int) -> None:
    world = World(seed)
    assert [*world.check(account_of(world))] == []


def lies(turn: SubJobTurn) -> Iterator[SubJobTurn]:
    """Yield untrue things to say of a subgroup."""
    other = TurnOutcome.DISCARDED if turn.outcome is TurnOutcome.COMMITTED else TurnOutcome.COMMITTED
    yield replace(turn, outcome=other)
    yield replace(turn, minimum=turn.minimum + 1)
    yield replace(turn, subjob="w-9") if turn.outcome is TurnOutcome.COMMITTED else replace(turn, had=turn.minimum)
    yield replace(turn, hypernode="r9")


@pytest.mark.long
def test_planted_errors_are_found() -> None:
    planted = 0
    for seed in range(40):
        account = account_of(World(seed))
        for place, turn in enumerate(account.turns):
            for number, part in enumerate(turn.subjobs):
                if part.outcome is TurnOutcome.COMMITTED and not any(
                    verdict.node and World(seed).part_of[verdict.pod.removeprefix("default/")] == part.subjob
                    for verdict in turn.verdicts
                ):
                    continue  # it had enough before, and got nothing more: where it is is said of an earlier turn
                for lie in lies(part):
                    told = (*turn.subjobs[:number], lie, *turn.subjobs[number + 1 :])
                    turns = (*account.turns[:place], replace(turn, subjobs=told), *account.turns[place + 1 :])
                    assert [*World(seed).check(replace(account, turns=turns))], (seed, lie)
                    planted += 1
    assert planted > 200


def test_recording_of_subgroups_replays_alike() -> None:
    account = account_of(World(0))
    assert any(turn.subjobs for turn in account.turns)
    assert msgspec.json.decode(msgspec.json.encode(account), type=SessionAccount) == account
