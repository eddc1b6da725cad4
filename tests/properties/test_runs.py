"""Pods that are placed in runs go where they would go one by one, whatever happens meanwhile, however runs are cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random

import msgspec
import pytest

from kframework import CycleState, NodeInfo, PendingPod, Plugin, Simulation, Status, Wait, hookimpl
from kframework.core.cycle.oracle import VerificationError
from kframework.core.cycle.records import Decision
from kframework.core.cycle.run import Run, RunBinding, RunObserver
from kframework.core.runtime.profile import Profile, Signature
from kframework.errors import ClusterError
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, Node, Pod
from kframework.testing import make_node, make_pod
from tests.support.scale import seeds

#: What differs between two runs of the same: what was measured.
_MEASURED = {"started": 0, "timings": (), "plugins": ()}


class Odd(Plugin):
    """Fails, or waits in Permit, for pods that are labelled so."""

    name = "Odd"
    reads = "pods"
    sign_reads = ()

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return pod.labels.get("odd", "")

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> Status | None:
        if pod.labels.get("odd") == "fails" and len(node.pods) > 1:
            raise ArithmeticError("there are too many")
        return None

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait | None:
        return Wait(2) if pod.labels.get("odd") == "waits" else None


class World:
    """Pods of a few kinds that come in crowds to nodes that come, go and are cordoned, on virtual time."""

    def __init__(self, seed: int, run_length: int, plugins: Sequence[type[Plugin]] = ()) -> None:
        self.random = Random(seed)
        self.decisions: list[Decision] = []
        self.lengths: Counter[int] = Counter()
        nodes = [self.node(number) for number in range(self.random.choice([3, 20, 120]))]
        self.simulation = Simulation(nodes, plugins=plugins, seed=seed, observers=[_Lengths(self.lengths)])
        self.simulation.scheduler.engine.run_length = run_length
        self.unlucky = {f"crowd-{self.random.randrange(60)}" for _ in range(4)}
        self.pods = 0

    def node(self, number: int) -> Node:
        zone = {"topology.kubernetes.io/zone": f"z{number % 3}", "kubernetes.io/hostname": f"n{number}"}
        return make_node(f"n{number}", cpu=self.random.choice([2, 4, 16]), labels=zone)

    def crowd(self) -> Iterator[Pod]:
        random, kind = self.random, self.random.randrange(7)
        labels = {"app": f"a{kind}", "odd": random.choice(["", "", "", "waits", "fails"])}
        for _ in range(random.choice([1, 2, 9, 30])):
            self.pods += 1
            name = f"crowd-{self.pods}"
            match kind:
                case 0:
                    yield make_pod(name, cpu=1, labels=labels, priority=10)
                case 1:
                    yield make_pod(name, cpu=1, labels=labels, node_selector={"topology.kubernetes.io/zone": "z1"})
                case 2:
                    yield make_pod(name, cpu="500m", labels=labels | {"own": name})
                case _:
                    yield make_pod(name, cpu="250m", memory="64Mi", labels=labels)

    def happen(self) -> None:
        random, cluster = self.random, self.simulation.cluster
        match random.randrange(6):
            case 0 if pods := cluster.objects(Pod):
                for pod in random.sample(pods, min(5, len(pods))):
                    cluster.remove(Pod, pod.metadata.name, "default", grace=0)
            case 1:
                cluster.put(self.node(random.randrange(30)))
            case 2 if nodes := cluster.objects(Node):
                node = random.choice(nodes)
                spec = msgspec.structs.replace(node.spec, unschedulable=not node.spec.unschedulable)
                cluster.replace(msgspec.structs.replace(node, spec=spec))
            case 3:
                cluster.faults[:] = [] if cluster.faults else [self.fault]
            case _:
                for each in self.crowd():
                    cluster.add(each)

    def fault(self, method: str, kind: type[ApiObject], namespace: str, name: str) -> Fault | None:
        if method == "bind" and name in self.unlucky:
            self.unlucky.discard(name)
            return Fault(error=ClusterError("the server is tired", status=422))
        return None

    def run(self) -> list[Decision]:
        with self.simulation:
            for _ in range(12):
                for _ in range(self.random.randrange(1, 4)):
                    self.happen()
                self.simulation.run(self.random.choice([1.0, 4.0]))
            result = self.simulation.run(30.0).result
        return [msgspec.structs.replace(decision, **_MEASURED) for decision in result.decisions]


class _Lengths(RunObserver):
    def __init__(self, lengths: Counter[int]) -> None:
        self._lengths = lengths

    def on_decision(self, decision: Decision) -> None:
        """Count runs alone."""

    def on_binding(self, binding: object) -> None:
        """Count runs alone."""

    def on_run(self, run: Run) -> None:
        self._lengths[len(run)] += 1

    def on_run_binding(self, bound: RunBinding) -> None:
        assert len(list(bound)) == len(bound.run)


@pytest.mark.parametrize("plugins", [(), (Odd,)], ids=["default", "odd"])
@pytest.mark.parametrize("seed", seeds(30))
def test_decisions_are_independent_of_the_length_of_runs(seed: int, plugins: tuple[type[Plugin], ...]) -> None:
    singly = World(seed, 0, plugins).run()
    for length in [(1, 7), (2, 64)][seed % 2]:
        assert World(seed, length, plugins).run() == singly


def test_wrong_signature_within_a_run_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    sign, first = Profile.sign, list[Signature]()

    def confuse(profile: Profile, pod: PendingPod, epoch: int | None = None) -> Signature:
        first.append(sign(profile, pod, epoch))
        return first[0]

    monkeypatch.setattr(Profile, "sign", confuse)
    with pytest.raises(ExceptionGroup) as failed:
        for seed in range(4):
            first.clear()
            World(seed, 64).run()
    assert failed.group_contains(VerificationError)
