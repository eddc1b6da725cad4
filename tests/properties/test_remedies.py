"""What would help, believed only once it is done: each line is applied and the real scheduler is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from kframework.explain.remedies.remedies import format_proposal, remedies
from kframework.framework.suggestions import (
    PENDING_POD,
    AmountSuggestion,
    Proposal,
    Suggestion,
    free_resource,
    remove_taint,
    set_label,
    uncordon,
)
from kframework.objects import (
    Affinity,
    ApiObject,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from kframework.scheduler.scheduler import Scheduler
from kframework.simulation.simulation import Simulation, simulate
from kframework.testing import make_node, make_pod
from tests.support.remedies import suggest_deletion
from tests.support.scale import seeds

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ["web", "db"]

T = TypeVar("T", bound=msgspec.Struct)


@pytest.mark.parametrize("seed", seeds())
def test_every_remedy_helps_and_one_unit_less_does_not(seed: int) -> None:
    objects = cluster(Random(seed))
    simulation, found = asked(objects)
    if scheduled(simulation):
        assert not found
        return
    assert found
    for changes in found:
        text = format_proposal(changes)
        assert helps(objects, changes), text
        for less in one_less(changes):
            assert not helps(objects, less), f"{text}: so much is not needed, {less} would do"
        for each in (change for change in changes if change.examples):
            others = [change for change in changes if change is not each]
            assert helps(objects, [*each.examples, *others]), text


@pytest.mark.parametrize("seed", seeds())
def test_no_smaller_set_of_changes_suffices(seed: int) -> None:
    """Single changes of the kinds that are tried by hand here are found where there are any."""
    objects = cluster(Random(seed))
    simulation, found = asked(objects)
    if not scheduled(simulation) and all(len(changes) > 1 for changes in found):
        for change in by_hand(objects):
            assert not helps(objects, [change]), f"overlooked: {change.text}"


# -- the slow, obvious way -----------------------------------------------------------------------------------------


def by_hand(objects: Sequence[ApiObject]) -> Iterable[Suggestion]:
    """List single changes of nodes, and every pod that could be deleted."""
    for node in objects:
        if isinstance(node, Node):
            name = node.metadata.name
            yield uncordon(name)
            yield from (remove_taint(name, taint) for taint in node.spec.taints)
            yield from (set_label(name, "disk", value) for value in ("ssd", "hdd"))
            yield from (free_resource(name, resource, in_use(objects, name, resource)) for resource in ("cpu", "pods"))
        elif isinstance(node, Pod) and node.spec.node_name:
            yield suggest_deletion(node)


def in_use(objects: Iterable[ApiObject], node: str, resource: str) -> int:
    """Return what the pods on a node take together."""
    pods = [pod for pod in objects if isinstance(pod, Pod) and pod.spec.node_name == node]
    if resource == "pods":
        return len(pods)
    return sum(int(str(pod.spec.containers[0].resources.requests["cpu"]).rstrip("m")) for pod in pods)


def one_less(changes: Sequence[Suggestion]) -> Iterator[Proposal]:
    """List what is left of these changes with one unit less of one of them."""
    for place, change in enumerate(changes):
        amount = change.amount if isinstance(change, AmountSuggestion) else 1
        less = (change.with_amount(amount - 1),) if isinstance(change, AmountSuggestion) and amount > 1 else ()
        yield (*changes[:place], *less, *changes[place + 1 :])


def helps(objects: Sequence[ApiObject], changes: Sequence[Suggestion]) -> bool:
    """Make the changes, run the scheduler, and tell whether it finds a node."""
    deleted = [change.target.pod for change in changes if change.target.pod]
    return scheduled(simulate([changed(obj, changes) for obj in without(objects, deleted)]))


def without(objects: Iterable[ApiObject], pods: Sequence[str]) -> list[ApiObject]:
    return [obj for obj in objects if not isinstance(obj, Pod) or key(obj) not in pods]


def changed(obj: ApiObject, changes: Iterable[Suggestion]) -> ApiObject:
    """Do to an object what the changes say, as by hand."""
    for change in changes:
        said = change.to_dict()
        match obj, said:
            case Pod() as pod, _ if change.target == PENDING_POD and not pod.spec.node_name:
                obj = change.patch(pod)
            case Node() as node, _ if node.metadata.name == said.get("node"):
                obj = changed_node(node, said)
    return obj


def changed_node(node: Node, change: dict[str, Any]) -> Node:
    match change["kind"]:
        case "uncordon":
            taints = tuple(each for each in node.spec.taints if each.key != "node.kubernetes.io/unschedulable")
            return put(node, spec=put(node.spec, unschedulable=False, taints=taints))
        case "removeTaint":
            taints = tuple(each for each in node.spec.taints if msgspec.to_builtins(each) != change["taint"])
            return put(node, spec=put(node.spec, taints=taints))
        case "setLabel":
            labels = node.metadata.labels | {change["key"]: change["value"]}
            return put(node, metadata=put(node.metadata, labels=labels))
        case "removeLabel":
            labels = {name: value for name, value in node.metadata.labels.items() if name != change["key"]}
            return put(node, metadata=put(node.metadata, labels=labels))
        case "freeResource":
            offered = more(node, change["resource"], change["amount"])
            return put(node, status=put(node.status, allocatable=offered))
    return node  # a pod on it goes


def more(node: Node, resource: str, amount: int) -> dict[str, str | int | float]:
    """Let a node offer more; the clusters here count cpu in milli and memory in bytes."""
    offered = dict(node.status.allocatable)
    if resource == "cpu":
        offered["cpu"] = f"{int(str(offered['cpu']).rstrip('m')) + amount}m"
    else:
        offered[resource] = int(offered.get(resource, 0)) + amount
    return offered


def put(struct: T, **fields: object) -> T:
    return msgspec.structs.replace(struct, **fields)


def key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def asked(objects: Sequence[ApiObject]) -> tuple[Simulation, list[Proposal]]:
    """Run the scheduler, and ask in the end what would help the pod."""
    found: list[Proposal] = []

    def ask(scheduler: Scheduler) -> None:
        for pod in scheduler.engine.handlers.pending.values():
            search = remedies(scheduler.engine, pod)
            while True:
                try:
                    next(search)
                except StopIteration as end:
                    found.extend(end.value)
                    break
                assert not scheduler.engine.cluster.statements

    with Simulation(objects) as simulation:
        ask(simulation.run().scheduler)
    return simulation, found


def scheduled(simulation: Simulation) -> bool:
    (outcome,) = (outcome for outcome in simulation.outcomes if outcome.pod == "default/pending")
    return outcome.node is not None


def cluster(random: Random) -> list[ApiObject]:
    """Make a few nodes that are mostly closed to a pod in one way or another, what runs there, and the pod."""
    return one_thing_wrong(random) if random.random() < 0.5 else much_wrong(random)


def one_thing_wrong(random: Random) -> list[ApiObject]:
    """Make a pod that asks for much, and nodes that lack one thing each."""
    web, db = (LabelSelector(match_labels={"app": app}) for app in APPS)
    pod = make_pod(
        "pending",
        labels={"app": "web"},
        cpu="900m",
        memory=1 << 29,
        node_selector={"disk": "ssd"},
        host_ports=[8080],
        affinity=apart(db),
        preemption_policy="Never",
    )
    wrong: list[dict[str, object]] = [
        {"taints": [random.choice(["dedicated=gpu:NoSchedule", "spot:NoExecute"])]},
        {"unschedulable": True, "taints": ["node.kubernetes.io/unschedulable:NoSchedule"]},
        {"labels": random.choice([{}, {"disk": "hdd"}])},
        {"cpu": f"{random.randint(1, 900)}m"},
        {"memory": random.randint(1, 1 << 29)},
        {"pods": 1},
    ]
    in_the_way: list[dict[str, object]] = [
        {"cpu": f"{random.randint(1101, 2000)}m"},
        {"memory": random.randint((1 << 30) - (1 << 29) + 1, 1 << 30)},
        {"host_ports": [8080]},
        {"labels": {"app": "db"}},
        {"affinity": apart(web)},
    ]
    objects: list[ApiObject] = [pod]
    for number in range(random.randint(1, 4)):
        nodes_fault = random.random() < 0.5
        room: dict[str, object] = {"cpu": "2000m", "memory": 1 << 30, "labels": {"disk": "ssd"}}
        node = make_node(f"node-{number}", **room | (random.choice(wrong) if nodes_fault else {}))  # type: ignore[arg-type]  # words of make_node
        takes: dict[str, object] = {"cpu": "1m", "memory": 1}
        other = takes | ({} if nodes_fault else random.choice(in_the_way))
        objects += [node, make_pod(f"running-{number}", node_name=f"node-{number}", **other)]  # type: ignore[arg-type]  # words of make_pod
    return objects


def apart(selector: LabelSelector) -> Affinity:
    term = PodAffinityTerm(topology_key=HOST, label_selector=selector)
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def much_wrong(random: Random) -> list[ApiObject]:
    """Make nodes of all kinds, what runs there, and a pod that may ask for anything."""
    strictness = random.random()

    def sometimes(chance: float = 0.35) -> bool:
        return random.random() < chance * strictness * 2

    nodes = [node(f"node-{number}", random, sometimes) for number in range(random.randint(1, 4))]
    running = [
        make_pod(
            f"running-{number}",
            labels={"app": random.choice(APPS)},
            cpu=f"{random.choice([300, 700, 1100])}m",
            memory=random.choice([1 << 28, 1 << 30]),
            host_ports=[8080] if sometimes(0.2) else [],
            affinity=Affinity(
                pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=term(random))
            )
            if sometimes(0.15)
            else None,
            node_name=random.choice(nodes).metadata.name,
        )
        for number in range(random.randint(0, 8))
    ]
    return [*nodes, *running, pending(random, sometimes)]


def node(name: str, random: Random, sometimes) -> Node:  # type: ignore[no-untyped-def]  # a local function
    cordoned = sometimes(0.25)
    taints = ["node.kubernetes.io/unschedulable:NoSchedule"] if cordoned and sometimes(0.8) else []
    taints += ["dedicated=gpu:NoSchedule"] if sometimes() else []
    taints += ["spot:NoExecute"] if sometimes(0.2) else []
    return make_node(
        name,
        zone=random.choice(["a", "b", ""]),
        labels={} if sometimes() else {"disk": random.choice(["ssd", "hdd"])},
        cpu=f"{random.choice([1000, 2000, 3000])}m",
        memory=random.choice([1 << 30, 1 << 32]),
        pods=random.choice([2, 3, 110]),
        taints=taints,
        unschedulable=cordoned,
    )


def pending(random: Random, sometimes) -> Pod:  # type: ignore[no-untyped-def]  # a local function
    near = PodAffinity(required_during_scheduling_ignored_during_execution=term(random)) if sometimes(0.1) else None
    apart = (
        PodAntiAffinity(required_during_scheduling_ignored_during_execution=term(random)) if sometimes(0.4) else None
    )
    return make_pod(
        "pending",
        labels={"app": random.choice(APPS)},
        cpu=f"{random.choice([100, 900, 2500])}m",
        memory=random.choice([1 << 27, 1 << 29, 3 << 30]),
        requests={"example.com/gpu": 1} if sometimes(0.1) else {},
        host_ports=[8080] if sometimes() else [],
        node_selector={"disk": "ssd"} if sometimes(0.3) else {},
        affinity=Affinity(
            node_affinity=wanted(random) if sometimes(0.3) else None, pod_affinity=near, pod_anti_affinity=apart
        ),
        tolerations=["spot"] if random.random() < 0.3 else [],
        topology_spread=[spread(random)] if sometimes(0.4) else [],
        gates=["example.com/hold"] if sometimes(0.1) else [],
        preemption_policy="Never",
    )


def term(random: Random) -> tuple[PodAffinityTerm, ...]:
    selector = LabelSelector(match_labels={"app": random.choice(APPS)})
    return (PodAffinityTerm(topology_key=random.choice([ZONE, HOST]), label_selector=selector),)


def wanted(random: Random) -> NodeAffinity:
    operator, values = random.choice(
        [("In", ("ssd", "nvme")), ("NotIn", ("hdd",)), ("Exists", ()), ("DoesNotExist", ())]
    )
    disk = NodeSelectorRequirement(key="disk", operator=operator, values=values)
    zone = NodeSelectorRequirement(key=ZONE, operator="In", values=(random.choice(["a", "b", "c"]),))
    terms = [NodeSelectorTerm(match_expressions=(disk,)), NodeSelectorTerm(match_expressions=(disk, zone))]
    chosen = tuple(terms[: random.randint(1, 2)] if random.random() < 0.7 else terms[1:])
    return NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=chosen))


def spread(random: Random) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=random.choice([1, 2]),
        topology_key=random.choice([ZONE, HOST]),
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": random.choice(APPS)}),
        min_domains=random.choice([None, 3]),
    )
